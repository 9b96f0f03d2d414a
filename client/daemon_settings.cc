#include "client/daemon_settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "proto/base/tcp_address.h"
#include "proto/base/toml_letters.h"
#include "proto/key/cache_namespace.h"
// As server/config_text.cc.
#define TOML_ASSERT(expression) static_assert(true)
#include "toml++/toml.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFileBytes = size_t{1} << 20;

enum class Kind { kText, kList, kPath };
struct Word {
  const char* variable;
  const char* key;  // in [daemon]
  Kind kind;
};
constexpr Word kWords[] = {
    {"KILN_ADDR", "addresses", Kind::kList},
    {"KILN_PUBLIC_KEY", "public_keys", Kind::kList},
    {"KILN_TLS_CA", "tls_ca", Kind::kPath},
    {"KILN_TLS_CERTIFICATE", "tls_certificate", Kind::kPath},
    {"KILN_TLS_KEY", "tls_key", Kind::kPath},
    {"KILN_TOKEN_FILE", "token_file", Kind::kPath},
    {"KILN_NAMESPACE", "namespace", Kind::kText},
    {"KILN_URGENCY", "urgency", Kind::kText}};

// A value, a list's with commas, and what errors call the place it came from.
struct Setting {
  std::string value;
  std::string source;
};
using Settings = std::map<std::string, Setting>;  // by variable

absl::Status Refuse(absl::string_view where, absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat(where, ": ", what));
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The file to read; empty: there is none.
fs::path SettingsFile() {
  const std::string named = Environment("KILN_CONFIG");
  if (!named.empty()) return named;
  const std::string own = Environment("XDG_CONFIG_HOME");
  const fs::path base =
      own.empty() ? fs::path(Environment("HOME")) / ".config" : fs::path(own);
  std::error_code error;
  for (const fs::path& file :
       {base / "kiln/kiln.toml", fs::path("/etc/kiln/kiln.toml")}) {
    if (fs::exists(file, error)) return file;
  }
  return "";
}

absl::Status CantBeRead(const std::string& file) {
  return Refuse(file, absl::StrCat("can't be read: ", std::strerror(errno)));
}

// Who writes the file chooses whom the program trusts. `fd`: the file that is read,
// whatever lies at its path a moment later.
absl::Status CheckOwn(const std::string& file, int fd) {
  struct stat link = {};
  struct stat found = {};
  if (lstat(file.c_str(), &link) != 0 || fstat(fd, &found) != 0)
    return CantBeRead(file);
  for (const uid_t owner : {link.st_uid, found.st_uid}) {
    if (owner != geteuid() && owner != 0)
      return Refuse(file, absl::StrCat("it is user ", owner, "'s"));
  }
  if ((found.st_mode & 0022) != 0)
    return Refuse(file, "other users can write it");
  if (!S_ISREG(found.st_mode)) return Refuse(file, "is not a regular file");
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadOwn(const std::string& file) {
  // A pipe without a writer is waited for by nobody.
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CantBeRead(file);
  const absl::Cleanup close_it = [fd] { close(fd); };
  RETURN_IF_ERROR(CheckOwn(file, fd));
  std::string text;
  char piece[4096];
  while (text.size() <= kMostFileBytes) {
    const ssize_t bytes = read(fd, piece, sizeof(piece));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return CantBeRead(file);
    if (bytes == 0) return text;
    text.append(piece, static_cast<size_t>(bytes));
  }
  return Refuse(file, absl::StrCat("found more than ", kMostFileBytes,
                                   " bytes, expected at most that"));
}

absl::StatusOr<toml::table> Parse(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadOwn(file));
  RETURN_IF_ERROR(CheckTomlLetters(text, file));
  // toml++ throws on bad text; it stops here.
  try {
    return toml::parse(std::string_view(text));
  } catch (const toml::parse_error& bad) {
    return Refuse(file, absl::StrCat("line ", bad.source().begin.line, ": ",
                                     std::string(bad.description())));
  }
}

// A value as the environment would have it.
absl::StatusOr<std::string> TextOf(const toml::node& node, const Word& word,
                                   const std::string& file) {
  const absl::string_view due =
      word.kind == Kind::kList ? "a list of strings" : "a string";
  const auto refuse = [&] {
    return Refuse(file, absl::StrCat(word.key, ": expected ", due));
  };
  if (const auto one = node.value<std::string>()) {
    if (!node.is_string()) return refuse();
    if (word.kind != Kind::kPath || absl::StartsWith(*one, "~")) return *one;
    // Seen from the file that names it.
    return (fs::absolute(file).parent_path() / *one).string();
  }
  const toml::array* list = node.as_array();
  if (word.kind != Kind::kList || list == nullptr) return refuse();
  std::vector<std::string> words;
  for (const toml::node& item : *list) {
    if (!item.is_string()) return refuse();
    words.push_back(*item.value<std::string>());
  }
  return absl::StrJoin(words, ",");
}

absl::Status ReadFile(const std::string& file, Settings& settings) {
  ASSIGN_OR_RETURN(const toml::table root, Parse(file));
  for (const auto& [name, node] : root) {
    const toml::table* table = node.as_table();
    if (name.str() != "daemon" || table == nullptr)
      return Refuse(file, absl::StrCat("found \"", std::string(name.str()),
                                       "\", expected only [daemon]"));
    for (const auto& [key, value] : *table) {
      const auto* word = std::find_if(
          std::begin(kWords), std::end(kWords),
          [&key](const Word& known) { return key.str() == known.key; });
      if (word == std::end(kWords))
        return Refuse(file, absl::StrCat("[daemon] ", std::string(key.str()),
                                         ": unknown word"));
      ASSIGN_OR_RETURN(std::string text, TextOf(value, *word, file));
      // What the environment names comes first.
      settings.try_emplace(
          word->variable,
          Setting{std::move(text), absl::StrCat(file, ": ", word->key)});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Settings> ReadSettings() {
  Settings settings;
  for (const Word& word : kWords) {
    std::string value = Environment(word.variable);
    if (!value.empty())
      settings[word.variable] = {std::move(value), word.variable};
  }
  const fs::path file = SettingsFile();
  if (!file.empty()) RETURN_IF_ERROR(ReadFile(file.string(), settings));
  return settings;
}

// Without "~/", which stands for the home folder.
std::string PathIn(const Settings& settings, const char* variable) {
  const auto found = settings.find(variable);
  if (found == settings.end()) return "";
  absl::string_view path = found->second.value;
  if (!absl::ConsumePrefix(&path, "~/")) return std::string(path);
  return absl::StrCat(Environment("HOME"), "/", path);
}

std::vector<std::string> ListIn(const Settings& settings,
                                const char* variable) {
  std::vector<std::string> words;
  const auto found = settings.find(variable);
  if (found == settings.end()) return words;
  for (absl::string_view word :
       absl::StrSplit(found->second.value, ',', absl::SkipWhitespace()))
    words.emplace_back(absl::StripAsciiWhitespace(word));
  return words;
}

absl::Status ReadKeys(const Settings& settings, DaemonSettings& out) {
  for (const std::string& word : ListIn(settings, "KILN_PUBLIC_KEY")) {
    const std::string& source = settings.at("KILN_PUBLIC_KEY").source;
    const bool is_hex =
        word.size() == 64 &&
        std::all_of(word.begin(), word.end(), absl::ascii_isxdigit);
    if (!is_hex)
      return Refuse(source, absl::StrCat("found \"", word.substr(0, 80),
                                         "\", expected 64 hexadecimal digits"));
    ASSIGN_OR_RETURN(PublicKey key,
                     PublicKey::FromBytes(absl::HexStringToBytes(word)));
    out.public_keys.push_back(std::move(key));
  }
  return absl::OkStatus();
}

std::string Untrusted(const std::string& address) {
  return absl::StrCat(address,
                      ": found no public key for it; set KILN_PUBLIC_KEY to "
                      "the key that `compilectl keys list` shows on the "
                      "daemon's machine");
}

// Once for each address, while the program lives.
void TellOnceNotAsked(const std::string& source, const std::string& address) {
  static Mutex mu;
  static auto& told = *new std::set<std::string>();
  MutexLock lock(&mu);
  if (!told.insert(address).second) return;
  LogWarning("daemon.not_asked",
             {{"source", source},
              {"text", absl::StrCat(Untrusted(address), "; it is not used")}});
}

// Removes the TCP addresses without a public key, unless there are no others.
absl::Status CheckTrust(const std::string& source, DaemonSettings& out) {
  if (!out.public_keys.empty()) return absl::OkStatus();
  const auto is_untrusted = [](const DaemonAddress& address) {
    return !address.tcp.empty();
  };
  if (!out.daemons.empty() &&
      std::all_of(out.daemons.begin(), out.daemons.end(), is_untrusted)) {
    return Refuse(source, Untrusted(out.daemons.front().tcp));
  }
  for (const DaemonAddress& address : out.daemons) {
    if (is_untrusted(address)) TellOnceNotAsked(source, address.tcp);
  }
  std::erase_if(out.daemons, is_untrusted);
  return absl::OkStatus();
}

absl::Status ReadAddresses(const Settings& settings, DaemonSettings& out) {
  for (const std::string& word : ListIn(settings, "KILN_ADDR")) {
    const std::string& source = settings.at("KILN_ADDR").source;
    DaemonAddress address;
    absl::string_view path = word;
    const bool is_socket =
        absl::ConsumePrefix(&path, "unix:") || absl::StartsWith(word, "/");
    if (is_socket && absl::StartsWith(path, "/")) {
      address.socket = std::string(path);
    } else if (!is_socket && CheckTcpAddress(word, /*least_port=*/1).ok()) {
      address.tcp = word;
      address.tls = {.ca = PathIn(settings, "KILN_TLS_CA"),
                     .certificate = PathIn(settings, "KILN_TLS_CERTIFICATE"),
                     .key = PathIn(settings, "KILN_TLS_KEY"),
                     .token_file = PathIn(settings, "KILN_TOKEN_FILE")};
      address.public_keys = out.public_keys;
    } else {
      return Refuse(source,
                    absl::StrCat("found \"", word.substr(0, 80),
                                 "\", expected unix:/PATH or HOST:PORT"));
    }
    out.daemons.push_back(std::move(address));
  }
  const auto found = settings.find("KILN_ADDR");
  return found == settings.end() ? absl::OkStatus()
                                 : CheckTrust(found->second.source, out);
}

absl::Status ReadUrgency(const Settings& settings, DaemonSettings& out) {
  const auto found = settings.find("KILN_URGENCY");
  if (found == settings.end()) return absl::OkStatus();
  const std::pair<absl::string_view, wire::Urgency> words[] = {
      {"interactive", wire::URGENCY_INTERACTIVE},
      {"background", wire::URGENCY_BACKGROUND},
      {"prewarm", wire::URGENCY_PREWARM}};
  for (const auto& [word, urgency] : words) {
    if (found->second.value != word) continue;
    out.urgency = urgency;
    return absl::OkStatus();
  }
  return Refuse(
      found->second.source,
      absl::StrCat("found \"", found->second.value.substr(0, 80),
                   "\", expected interactive, background or prewarm"));
}

}  // namespace

absl::StatusOr<DaemonSettings> ReadDaemonSettings() {
  ASSIGN_OR_RETURN(const Settings settings, ReadSettings());
  DaemonSettings out;
  RETURN_IF_ERROR(ReadKeys(settings, out));
  RETURN_IF_ERROR(ReadAddresses(settings, out));
  RETURN_IF_ERROR(ReadUrgency(settings, out));
  const auto name = settings.find("KILN_NAMESPACE");
  if (name != settings.end()) {
    RETURN_IF_ERROR(Annotate(NamespaceNamed(name->second.value).status(),
                             name->second.source));
    out.cache_namespace = name->second.value;
  }
  return out;
}

}  // namespace kiln
