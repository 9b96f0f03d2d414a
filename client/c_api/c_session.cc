#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/c_api/c_graph_options.h"
#include "client/c_api/c_handles.h"
#include "client/c_api/c_status.h"
#include "client/c_api/kiln.h"
#include "client/daemon_settings.h"
#include "client/load_bundle.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/compile_service.pb.h"
#include "proto/key/cache_namespace.h"
#include "runtime/thread_pool.h"

// Sessions, and the artifacts that travel between them.

namespace kiln {
namespace {

std::string Text(const char* text) { return text == nullptr ? "" : text; }

// What the caller gave, as far as its struct goes; the rest is zero.
absl::StatusOr<KilnSessionOptions> OptionsAsGiven(
    const KilnSessionOptions* given) {
  RETURN_IF_ERROR(
      CheckStruct("options", given, offsetof(KilnSessionOptions, tcp)));
  KilnSessionOptions options = {};
  std::memcpy(&options, given, std::min(given->struct_size, sizeof(options)));
  return options;
}

absl::Status CheckOptions(const KilnSessionOptions& given) {
  RETURN_IF_ERROR(CheckRange("fallback", NumberOf(given.fallback),
                             KILN_FALLBACK_ERROR, KILN_LOCAL_ONLY));
  RETURN_IF_ERROR(
      CheckRange("device", NumberOf(given.device), KILN_CPU, KILN_CUDA));
  RETURN_IF_ERROR(CheckAtLeast("ordinal", given.ordinal, 0));
  RETURN_IF_ERROR(
      CheckRange("threads", given.threads, 0, ThreadPool::kMaxThreads));
  RETURN_IF_ERROR(
      CheckAtLeast("compile_deadline_ms", given.compile_deadline_ms, 0));
  RETURN_IF_ERROR(
      CheckArray("public_keys", given.public_keys, given.public_key_count));
  RETURN_IF_ERROR(NamespaceNamed(Text(given.cache_namespace)).status());
  RETURN_IF_ERROR(CheckRange("graphs", given.graphs, 0, 1));
  RETURN_IF_ERROR(CheckGraphOptions(given.graph_options));
  RETURN_IF_ERROR(CheckRange("urgency", NumberOf(given.urgency),
                             KILN_INTERACTIVE, KILN_PREWARM));
  if (given.fallback != KILN_FALLBACK_ERROR) {
    RETURN_IF_ERROR(CheckGiven("worker_program", given.worker_program));
  }
  if (given.socket != nullptr && given.tcp != nullptr) {
    return MakeError(ErrorReason::kBadOption,
                     "socket and tcp: both are set; set one of them");
  }
  if (given.fallback == KILN_LOCAL_ONLY || given.tcp != nullptr ||
      given.socket != nullptr) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const DaemonSettings settings, ReadDaemonSettings());
  if (!settings.daemons.empty()) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   "socket: found NULL, and neither KILN_ADDR nor kiln.toml "
                   "names a daemon");
}

absl::StatusOr<std::vector<PublicKey>> KeysOf(const KilnSessionOptions& given) {
  std::vector<PublicKey> keys;
  for (int32_t i = 0; i < given.public_key_count; ++i) {
    const uint8_t* bytes = given.public_keys + i * KILN_PUBLIC_KEY_BYTES;
    ASSIGN_OR_RETURN(
        PublicKey key,
        PublicKey::FromBytes({reinterpret_cast<const char*>(bytes),
                              static_cast<size_t>(KILN_PUBLIC_KEY_BYTES)}));
    keys.push_back(std::move(key));
  }
  return keys;
}

void Tell(const KilnSessionOptions& given, const std::string& graph,
          const wire::Progress& progress) {
  const KilnProgress told = {graph.c_str(), progress.stage(),
                             static_cast<int32_t>(progress.done()),
                             static_cast<int32_t>(progress.total())};
  given.on_progress(given.progress_context, &told);
}

// The daemon at "unix:/path" or "host:port", trusted as `known` is.
DaemonAddress AddressAt(absl::string_view place, const SessionOptions& known) {
  DaemonAddress address = known.daemon;
  address.socket.clear();
  address.tcp.clear();
  address.public_keys.clear();
  if (absl::ConsumePrefix(&place, "unix:")) {
    address.socket = std::string(place);
  } else {
    address.tcp = std::string(place);
    address.public_keys = known.trusted_keys;
  }
  return address;
}

// Where the caller says that a daemon is now.
std::optional<DaemonAddress> Find(const KilnSessionOptions& given,
                                  const SessionOptions& known) {
  std::array<char, KILN_ADDRESS_BYTES> text = {};
  if (given.find_daemon(given.find_context, text.data(), text.size()) == 0) {
    return std::nullopt;
  }
  text.back() = '\0';
  return AddressAt(text.data(), known);
}

absl::StatusOr<SessionOptions> OptionsOf(const KilnSessionOptions& given) {
  SessionOptions options;
  ASSIGN_OR_RETURN(options.trusted_keys, KeysOf(given));
  options.daemon.socket = Text(given.socket);
  options.daemon.tcp = Text(given.tcp);
  options.daemon.tls = {.ca = Text(given.tls_ca),
                        .certificate = Text(given.tls_certificate),
                        .key = Text(given.tls_key),
                        .token_file = Text(given.token_file)};
  if (given.tcp != nullptr) options.daemon.public_keys = options.trusted_keys;
  options.cache_namespace = Text(given.cache_namespace);
  options.urgency = static_cast<wire::Urgency>(given.urgency);
  options.local_only = given.fallback == KILN_LOCAL_ONLY;
  if (given.fallback == KILN_FALLBACK_LOCAL_WORKER) {
    options.fallback = Fallback::kLocalWorker;
  }
  options.local_worker.program = Text(given.worker_program);
  options.local_worker.scratch_root =
      given.scratch_folder == nullptr ? "/tmp" : given.scratch_folder;
  options.local_worker.environment =
      absl::StrSplit(Text(given.worker_environment), '\n', absl::SkipEmpty());
  options.device.kind =
      given.device == KILN_CUDA ? DeviceKind::kCuda : DeviceKind::kCpu;
  options.device.ordinal = given.ordinal;
  options.device.threads = given.threads;
  if (given.compile_deadline_ms > 0) {
    options.compile_deadline = absl::Milliseconds(given.compile_deadline_ms);
  }
  if (given.graphs != 0) options.graphs = GraphOptionsOf(given.graph_options);
  if (given.shelf != nullptr) options.shelf = given.shelf->shelf;
  if (given.on_progress != nullptr) {
    options.on_progress = [given](const std::string& graph,
                                  const wire::Progress& progress) {
      Tell(given, graph, progress);
    };
  }
  const std::string more = Text(given.more_daemons);
  for (const absl::string_view place :
       absl::StrSplit(more, ',', absl::SkipWhitespace())) {
    options.more_daemons.push_back(
        AddressAt(absl::StripAsciiWhitespace(place), options));
  }
  if (given.find_daemon != nullptr) {
    options.find_daemon = [given, known = options] {
      return Find(given, known);
    };
  }
  return options;
}

absl::StatusOr<SessionOptions> CheckedOptions(const KilnSessionOptions* given) {
  ASSIGN_OR_RETURN(const KilnSessionOptions options, OptionsAsGiven(given));
  RETURN_IF_ERROR(CheckOptions(options));
  return OptionsOf(options);
}

absl::StatusOr<std::shared_ptr<Session>> Open(const KilnSessionOptions* given,
                                              KilnSession** where) {
  absl::StatusOr<SessionOptions> options = CheckedOptions(given);
  if (!options.ok()) return Annotate(options.status(), "session options");
  RETURN_IF_ERROR(CheckGiven("session: pointer for the result", where));
  return Session::Open(*std::move(options));
}

absl::StatusOr<absl::string_view> BytesOf(const void* bytes, size_t length) {
  RETURN_IF_ERROR(CheckGiven("bundle", bytes));
  return absl::string_view(static_cast<const char*>(bytes), length);
}

absl::StatusOr<int32_t> Load(KilnShelf* shelf, KilnSession* const* sessions,
                             int32_t session_count, const void* bytes,
                             size_t length, const int32_t* where) {
  RETURN_IF_ERROR(CheckGiven("artifacts: pointer for the result", where));
  RETURN_IF_ERROR(CheckGiven("shelf", shelf));
  RETURN_IF_ERROR(CheckArray("sessions", sessions, session_count));
  ASSIGN_OR_RETURN(const absl::string_view bundle, BytesOf(bytes, length));
  std::vector<std::shared_ptr<Session>> opened;
  for (int32_t i = 0; i < session_count; ++i) {
    RETURN_IF_ERROR(CheckGiven(absl::StrCat("session ", i), sessions[i]));
    opened.push_back(sessions[i]->session);
  }
  return LoadBundle(bundle, opened, *shelf->shelf);
}

absl::StatusOr<uint32_t> Devices(const void* bytes, size_t length,
                                 const uint32_t* where) {
  RETURN_IF_ERROR(CheckGiven("devices: pointer for the result", where));
  ASSIGN_OR_RETURN(const absl::string_view bundle, BytesOf(bytes, length));
  ASSIGN_OR_RETURN(const std::set<DeviceKind> kinds, DevicesOfBundle(bundle));
  uint32_t devices = 0;
  if (kinds.contains(DeviceKind::kCpu)) devices |= 1u << KILN_CPU;
  if (kinds.contains(DeviceKind::kCuda)) devices |= 1u << KILN_CUDA;
  return devices;
}

}  // namespace
}  // namespace kiln

KilnStatus* kiln_session_open(const KilnSessionOptions* options,
                              KilnSession** session) {
  auto opened = kiln::Open(options, session);
  if (!opened.ok()) return kiln::StatusOf(opened.status());
  *session = new KilnSession{*std::move(opened)};
  return nullptr;
}
void kiln_session_close(KilnSession* session) { delete session; }

KilnShelf* kiln_shelf_new(void) {
  return new KilnShelf{std::make_shared<kiln::ArtifactShelf>()};
}
void kiln_shelf_free(KilnShelf* shelf) { delete shelf; }

size_t kiln_shelf_save(const KilnShelf* shelf, void* buffer, size_t size) {
  const std::string bundle = shelf->shelf->Save();
  if (bundle.size() <= size) {
    std::memcpy(buffer, bundle.data(), bundle.size());
  }
  return bundle.size();
}

KilnStatus* kiln_shelf_load(KilnShelf* shelf, KilnSession* const* sessions,
                            int32_t session_count, const void* bytes,
                            size_t length, int32_t* artifacts) {
  const absl::StatusOr<int32_t> count =
      kiln::Load(shelf, sessions, session_count, bytes, length, artifacts);
  if (!count.ok()) return kiln::StatusOf(count.status());
  *artifacts = *count;
  return nullptr;
}

KilnStatus* kiln_bundle_devices(const void* bytes, size_t length,
                                uint32_t* devices) {
  const absl::StatusOr<uint32_t> found = kiln::Devices(bytes, length, devices);
  if (!found.ok()) return kiln::StatusOf(found.status());
  *devices = *found;
  return nullptr;
}
