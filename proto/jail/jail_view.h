#ifndef KILN_PROTO_JAIL_JAIL_VIEW_H_
#define KILN_PROTO_JAIL_JAIL_VIEW_H_

#include <string>
#include <vector>

#include "proto/jail/jail_spec.h"

namespace kiln {

// What of the machine's files a worker sees. Paths are absolute and were there
// a moment ago.
struct JailView {
  std::vector<std::string> readable;  // files and folders, to read and execute
  std::vector<std::string> writable;  // folders
  std::vector<std::string> devices;   // to read and write
  // Of itself, where /proc is its own: CUDA's driver writes there.
  bool writes_proc = false;
};

// The system's programs and libraries, the linker's cache and what `spec` names.
// Where a folder of the spec's holds links, what they lead to is seen too.
// Nothing of /home, /root, /var, /tmp or /run is, unless the spec's lie there.
JailView ViewOf(const JailSpec& spec);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_VIEW_H_
