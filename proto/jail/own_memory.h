#ifndef KILN_PROTO_JAIL_OWN_MEMORY_H_
#define KILN_PROTO_JAIL_OWN_MEMORY_H_

namespace kiln {

// From now on no other process of this one's user reads or writes its memory or
// traces it, and it leaves no core file: for a process with keys in it, and one
// that a worker of the same user runs beside. A program that it starts is not kept
// so.
void KeepMemoryToItself();

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_OWN_MEMORY_H_
