#include "client/compilectl/doctor.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/compilectl/admin_call.h"
#include "client/compilectl/doctor_address.h"
#include "client/daemon_identity.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Before this program was written, so the clock is wrong: ages and evictions
// would be.
constexpr absl::string_view kEarliest = "2025-01-01T00:00:00+00:00";

constexpr size_t kColumns = 80;

const char* InstallNvrtc(const DoctorOptions& options) {
  return options.from_wheel
             ? "pip install 'nvidia-cuda-nvrtc>=13.0,<13.1' && compilectl "
               "drain  # or KILN_CUDA_LIBRARY_PATH=FOLDER"
             : "deploy/install_deps.sh, then ./kiln daemon  # or start it with "
               "KILN_CUDA_LIBRARY_PATH=FOLDER";
}

const char* InstallHostCompiler(const DoctorOptions& options) {
  return options.from_wheel
             ? "apt-get install g++  # or KILN_HOST_CC=/path/of/g++"
             : "apt-get install g++  # or deploy/install_deps.sh";
}

// One that a worker found, or misses.
Finding ToolchainFinding(const DoctorOptions& options,
                         const wire::Toolchain& tool) {
  // NVRTC is for CUDA, a host compiler is for all.
  const bool nvrtc = tool.name() == "nvrtc";
  Finding out{.subject = nvrtc ? "NVRTC" : "host compiler"};
  if (tool.missing().empty()) {
    out.found = absl::StrCat(tool.path(), ", ", tool.version());
    return out;
  }
  out.found = tool.missing();
  out.health = nvrtc ? Health::kAbsent : Health::kBad;
  out.remedy = nvrtc ? InstallNvrtc(options) : InstallHostCompiler(options);
  return out;
}

// As a worker says that a daemon of this machine would start.
std::vector<Finding> OwnToolchains(const DoctorOptions& options) {
  const absl::StatusOr<wire::HelloReply> hello = options.ask_worker();
  if (!hello.ok()) {
    return {
        {.subject = "worker",
         .health = Health::kBad,
         .found = std::string(hello.status().message()),
         .remedy = absl::StrCat(
             options.kilnd, absl::StartsWith(options.kilnd, "./kiln")
                                ? "  # builds kiln-worker"
                                : " --worker PROGRAM  # names kiln-worker")}};
  }
  std::vector<Finding> findings;
  for (const wire::Toolchain& tool : hello->toolchains()) {
    findings.push_back(ToolchainFinding(options, tool));
  }
  return findings;
}

Finding Library(const DoctorOptions& options, absl::string_view subject,
                const std::string& library, absl::string_view without,
                absl::string_view remedy) {
  Finding out{.subject = std::string(subject), .found = library};
  if (options.can_load(library)) return out;
  out.health = Health::kAbsent;
  out.found = absl::StrCat(library, " not found by the loader: ", without);
  out.remedy = std::string(remedy);
  return out;
}

// The weakest that a worker has.
Finding Sandbox(const wire::WorkersReply& workers) {
  Finding out{.subject = "worker sandbox"};
  for (const wire::Worker& worker : workers.workers()) {
    if (worker.sandbox().empty()) continue;  // it starts
    out.found = worker.sandbox();
    if (worker.sandbox_lacks().empty()) continue;
    out.health = worker.sandbox() == "limits" ? Health::kBad : Health::kAbsent;
    absl::StrAppend(&out.found, ", not more: ", worker.sandbox_lacks());
    out.remedy =
        "sysctl user.max_user_namespaces=10000  # or grant CAP_SYS_ADMIN";
    break;
  }
  if (out.found.empty()) out.found = "no worker runs";
  return out;
}

// What a daemon says of itself.
struct DaemonAnswer {
  std::vector<Finding> findings;
  std::vector<Finding> toolchains;  // empty: nobody answered
  std::string data_folder;  // empty: nobody answered, or an older daemon
};

absl::StatusOr<DaemonAnswer> AskDaemon(const DoctorOptions& options) {
  const DaemonAddress& address = options.daemon;
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                   OpenDaemonChannel(address));
  RETURN_IF_ERROR(CheckIdentity(channel, address));
  const AdminClient client(channel, address.answer_timeout);
  ASSIGN_OR_RETURN(
      const wire::WorkersReply workers,
      AdminCall<wire::WorkersReply>(client, &wire::AdminService::Stub::Workers,
                                    wire::WorkersRequest()));
  ASSIGN_OR_RETURN(
      const wire::StatsReply stats,
      AdminCall<wire::StatsReply>(client, &wire::AdminService::Stub::Stats,
                                  wire::StatsRequest()));
  DaemonAnswer answer;
  answer.data_folder = stats.data_folder();
  answer.findings.push_back(
      {.subject = "daemon",
       .found = absl::StrCat(workers.workers_size(), " workers")});
  answer.findings.push_back(Sandbox(workers));
  for (const wire::Toolchain& tool : workers.toolchains()) {
    answer.toolchains.push_back(ToolchainFinding(options, tool));
  }
  if (answer.toolchains.empty()) {
    answer.toolchains.push_back({.subject = "host compiler",
                                 .health = Health::kAbsent,
                                 .found = "no worker has told of one yet",
                                 .remedy = "compilectl doctor  # again"});
  }
  return answer;
}

// The nearest folder above `folder` that is there, or `folder`.
fs::path NearestThere(const std::string& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::exists(there, error) && there.has_relative_path()) {
    there = there.parent_path();
  }
  return there;
}

// Whether a folder can be made in `there`. Modes alone do not tell: a file system
// may be for reading, or make none, as /proc.
bool CanHoldFolders(const fs::path& there) {
  std::string name = (there / ".kiln-doctor-XXXXXX").string();
  return mkdtemp(name.data()) != nullptr && rmdir(name.c_str()) == 0;
}

Finding FolderAccess(const DoctorOptions& options, const std::string& folder,
                     const fs::path& there, bool daemon_uses_it) {
  const char* const another =
      options.from_wheel ? "another KILN_CACHE_DIR" : "another --data-folder";
  Finding out{.subject = "data folder", .found = folder};
  std::error_code error;
  if (!fs::is_directory(there, error)) {
    out.health = Health::kBad;
    absl::StrAppend(&out.found, ": not a folder");
    out.remedy = another;
  } else if (access(there.c_str(), W_OK | X_OK) != 0) {
    out.health = Health::kBad;
    absl::StrAppend(&out.found, ": not writable");
    out.remedy = absl::StrCat("chown $USER ", folder, "  # or ", another);
  } else if (!fs::exists(folder, error) && daemon_uses_it) {
    out.health = Health::kBad;
    absl::StrAppend(&out.found, ": removed under a daemon that runs");
    out.remedy = "compilectl drain  # then start kilnd again";
  } else if (!fs::exists(folder, error) &&
             (fs::is_symlink(folder, error) || !CanHoldFolders(there))) {
    out.health = Health::kBad;
    absl::StrAppend(&out.found, ": cannot be made");
    out.remedy = another;
  } else if (!fs::exists(folder, error)) {
    out.health = Health::kAbsent;
    absl::StrAppend(&out.found, ": not there yet");
    out.remedy = options.starts_itself ? "the first compile makes it"
                                       : absl::StrCat("kilnd --data-folder ",
                                                      folder, "  # makes it");
  }
  return out;
}

std::vector<Finding> DataFolder(const DoctorOptions& options,
                                const DaemonAnswer& daemon) {
  const bool named = !options.data_folder.empty();
  const bool daemons = !named && !daemon.data_folder.empty();
  if (daemons && options.daemon.socket.empty()) {
    return {{.subject = "data folder",
             .health = Health::kAbsent,
             .found = absl::StrCat(daemon.data_folder,
                                   ": on the daemon's machine, not looked at"),
             .remedy = "compilectl doctor  # there"}};
  }
  const std::string& folder = named     ? options.data_folder
                              : daemons ? daemon.data_folder
                                        : options.default_data_folder;
  const fs::path there = NearestThere(folder);
  Finding disk{.subject = "free disk"};
  std::error_code error;
  const fs::space_info space = fs::space(there, error);
  disk.found = error ? error.message() : BytesText(space.available);
  if (error || space.available < options.least_free_bytes) {
    disk.health = Health::kBad;
    disk.remedy = "compilectl purge --older-than 7d";
  }
  return {FolderAccess(options, folder, there, daemons), disk};
}

Finding Clock(absl::Time now) {
  Finding out{.subject = "clock", .found = absl::FormatTime(now)};
  absl::Time earliest;
  std::string ignored;
  absl::ParseTime(absl::RFC3339_full, kEarliest, &earliest, &ignored);
  if (now < earliest) {
    out.health = Health::kBad;
    out.remedy = "timedatectl set-ntp true";
  }
  return out;
}

// `text` in lines of at most `width`, broken at spaces; a longer word is whole.
std::vector<std::string> Lines(absl::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!lines.back().empty()) {
      if (lines.back().size() + 1 + word.size() > width) {
        lines.emplace_back();
      } else {
        lines.back() += ' ';
      }
    }
    absl::StrAppend(&lines.back(), word);
  }
  return lines;
}

absl::string_view HealthWord(Health health) {
  switch (health) {
    case Health::kGood:
      return "good";
    case Health::kAbsent:
      return "absent";
    case Health::kBad:
      return "BAD";
  }
  return "BAD";
}

}  // namespace

bool CanLoad(const std::string& library) {
  return dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

std::vector<Finding> Examine(const DoctorOptions& options) {
  const absl::StatusOr<DaemonAnswer> asked = AskDaemon(options);
  const DaemonAnswer daemon =
      asked.ok() ? *asked
                 : DaemonAnswer{
                       .findings = {NoDaemonFinding(options, asked.status())}};
  std::vector<Finding> findings =
      daemon.toolchains.empty() ? OwnToolchains(options) : daemon.toolchains;
  for (const Finding& finding :
       {Library(options, "CUDA driver", "libcuda.so.1",
                "no GPU can be used here",
                "install the NVIDIA driver, where a GPU is"),
        Library(
            options, "oneDNN", "libdnnl.so.2",
            "matrix products and convolutions on the CPU are slow without it",
            "apt-get install libdnnl2"),
        AddressFinding(options, asked.status())}) {
    findings.push_back(finding);
  }
  for (auto& finding : DataFolder(options, daemon)) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(Clock(options.now));
  findings.insert(findings.end(), daemon.findings.begin(),
                  daemon.findings.end());
  return findings;
}

std::string DoctorText(const std::vector<Finding>& findings,
                       OutputFormat format) {
  if (format == OutputFormat::kJson) {
    auto rows = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
      rows.push_back({{"subject", finding.subject},
                      {"health", std::string(HealthWord(finding.health))},
                      {"found", finding.found},
                      {"remedy", finding.remedy}});
    }
    return JsonText({{"findings", std::move(rows)}});
  }
  // The longest there is: `python -m kiln doctor` puts a row above these.
  size_t subjects = absl::string_view("worker toolchain").size();
  for (const Finding& finding : findings) {
    subjects = std::max(subjects, finding.subject.size());
  }
  std::string text;
  for (const Finding& finding : findings) {
    const std::string start =
        absl::StrFormat("%-8s%-*s  ", HealthWord(finding.health),
                        static_cast<int>(subjects), finding.subject);
    const std::string below(start.size(), ' ');
    const std::string broken =
        absl::StrJoin(Lines(finding.found, kColumns - start.size()),
                      absl::StrCat("\n", below));
    absl::StrAppend(&text, start, broken, "\n");
    if (!finding.remedy.empty()) {
      absl::StrAppend(&text, below, "-> ", finding.remedy, "\n");
    }
  }
  return text;
}

bool AnythingBad(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.health == Health::kBad) return true;
  }
  return false;
}

}  // namespace kiln
