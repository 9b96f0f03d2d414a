#include "client/compilectl/doctor_address.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr char kStartsItself[] = "the first compile starts the daemon";

std::string WordsOf(int error) {
  return std::generic_category().message(error);
}

// Why nobody can be called at the socket; 0: a process listens.
int ErrorOfCalling(const std::string& socket_path) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(name.sun_path)) return ENAMETOOLONG;
  std::memcpy(name.sun_path, socket_path.data(), socket_path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  const int called =
      connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  // EAGAIN: it is behind with accepting.
  const int error = called == 0 || errno == EAGAIN ? 0 : errno;
  close(fd);
  return error;
}

// For whom the daemon that is named is not.
const char* AnotherDaemon(const DoctorOptions& options) {
  return options.from_wheel
             ? "unset KILN_ADDR  # for a daemon of your own"
             : "start a kilnd of your own, or --socket another one";
}

std::string StartIt(const DoctorOptions& options) {
  return absl::StrCat(options.kilnd, " --socket ", options.daemon.socket);
}

// Whether a kilnd answered, be it with a refusal. A plain port refuses without a
// reason.
bool SpeaksKiln(const absl::Status& asked) {
  return asked.ok() || ReasonOf(asked).has_value() ||
         absl::IsUnimplemented(asked);
}

Finding Bad(absl::string_view subject, const std::string& found,
            const std::string& remedy) {
  return {.subject = std::string(subject),
          .health = Health::kBad,
          .found = found,
          .remedy = remedy};
}

Finding Tcp(const DoctorOptions& options, const absl::Status& asked) {
  const std::string& tcp = options.daemon.tcp;
  if (SpeaksKiln(asked)) return {.subject = "address", .found = tcp};
  return Bad("address", absl::StrCat(tcp, ": no kilnd answers"),
             "compilectl doctor  # on its machine");
}

}  // namespace

Finding AddressFinding(const DoctorOptions& options,
                       const absl::Status& asked) {
  const std::string& path = options.daemon.socket;
  const std::string text = options.daemon.Text();
  if (path.empty()) return Tcp(options, asked);
  const auto bad = [&text](const std::string& what, const std::string& remedy) {
    return Bad("socket", absl::StrCat(text, ": ", what), remedy);
  };
  struct stat info = {};
  int error = stat(path.c_str(), &info) == 0 ? 0 : errno;
  if (error == 0 && !S_ISSOCK(info.st_mode))
    return bad("not a socket",
               absl::StrCat("rm ", path, "  # then start kilnd"));
  if (error == 0 && info.st_uid != geteuid() && info.st_uid != 0) {
    return bad(
        absl::StrCat("owned by user ", info.st_uid, ", expected ", geteuid()),
        AnotherDaemon(options));
  }
  if (error == 0) error = ErrorOfCalling(path);
  if (options.starts_itself && (error == ENOENT || error == ECONNREFUSED)) {
    return {.subject = "socket",
            .health = Health::kAbsent,
            .found = absl::StrCat(
                text, error == ENOENT ? ": not there yet"
                                      : ": left behind, no process listens"),
            .remedy = kStartsItself};
  }
  if (error == EACCES) return bad(WordsOf(error), AnotherDaemon(options));
  if (error == ECONNREFUSED)
    return bad("left behind, no process listens", StartIt(options));
  if (error != 0) return bad(WordsOf(error), StartIt(options));
  if (SpeaksKiln(asked)) return {.subject = "socket", .found = text};
  return bad("a process listens that does not answer as a kilnd",
             AnotherDaemon(options));
}

Finding NoDaemonFinding(const DoctorOptions& options,
                        const absl::Status& asked) {
  Finding none = Bad("daemon", std::string(asked.message()), "");
  const std::optional<ErrorReason> reason = ReasonOf(asked);
  if (options.daemon.socket.empty()) {
    const bool unknown = reason == ErrorReason::kUnauthenticated ||
                         reason == ErrorReason::kPermission;
    none.remedy =
        unknown ? "compilectl tokens add NAME --role admin "
                  "--namespace '*'  # on its machine"
        : reason == ErrorReason::kArtifactUntrusted
            ? "compilectl keys list  # on its machine; then give that "
              "--public-key"
            : "compilectl doctor  # on its machine";
    return none;
  }
  // What is wrong with the socket is wrong with the daemon.
  const Finding address = AddressFinding(options, asked);
  if (address.health == Health::kAbsent) none.health = Health::kAbsent;
  none.remedy =
      address.remedy.empty() ? AnotherDaemon(options) : address.remedy;
  return none;
}

}  // namespace kiln
