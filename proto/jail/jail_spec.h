#ifndef KILN_PROTO_JAIL_JAIL_SPEC_H_
#define KILN_PROTO_JAIL_JAIL_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// What keeps a worker in, weakest first. Each has what those before it have.
enum class JailLevel {
  // Resource limits, the lowest priority, and the end of all its processes with it;
  // fewer system calls where the kernel filters them.
  kLimits,
  // Landlock: it sees the compilers and its scratch folder and nothing else.
  // No sockets, no session of its own.
  kLandlock,
  // A root, processes, a network and shared memory of its own.
  kNamespaces,
};

// "limits", "landlock", "namespaces"; also what `[workers] sandbox` says.
absl::string_view JailLevelName(JailLevel level);
// BAD_OPTION when `name` is none of them.
absl::StatusOr<JailLevel> JailLevelFromName(absl::string_view name);

// The strongest that a machine may be asked for, and the weakest that will do.
struct JailRange {
  JailLevel weakest = JailLevel::kLimits;
  JailLevel strongest = JailLevel::kNamespaces;
};

// What one worker may have. Passed to the program as words before its own.
struct JailSpec {
  JailRange levels;
  std::string scratch;                // the only folder that it may write
  std::vector<std::string> readable;  // beside the system's own compilers
  std::vector<std::string> writable;  // beside `scratch`
  bool gpu = false;                   // may open NVIDIA's devices
  int64_t memory_bytes = 0;           // that each process may write; 0: any
  int64_t cpu_seconds = 0;            // of each process; 0: any
  // False: the lowest priority from its first instruction. True: its starter's, until
  // it calls TakeLowestPriority (lowest_priority.h) itself, for one whose hello
  // somebody waits for.
  bool lowest_after_hello = false;
};

// The words of a spec, "--jail" first and "--" last.
std::vector<std::string> JailWords(const JailSpec& spec);

// Reads JailWords off the front of `words`; what follows them is left.
// BAD_OPTION names the first word that is none.
absl::StatusOr<JailSpec> TakeJailWords(std::vector<std::string>& words);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_SPEC_H_
