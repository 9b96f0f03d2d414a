#ifndef KILN_TESTS_SUPPORT_FREE_PORT_H_
#define KILN_TESTS_SUPPORT_FREE_PORT_H_

namespace kiln {

// A port of 127.0.0.1 that nobody has now, below those that the system gives to
// connections; never the same one twice in a process.
int FreePort();

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_FREE_PORT_H_
