#ifndef KILN_TESTS_SUPPORT_LEFT_BEHIND_H_
#define KILN_TESTS_SUPPORT_LEFT_BEHIND_H_

#include "tests/support/test_daemon.h"

namespace kiln {

// Ends the daemon. Before, its workers are the only processes and scratch folders
// that it has, however many of them died; after, there are none.
void ExpectNothingLeft(TestDaemon& d);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_LEFT_BEHIND_H_
