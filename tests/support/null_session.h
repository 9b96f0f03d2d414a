#ifndef KILN_TESTS_SUPPORT_NULL_SESSION_H_
#define KILN_TESTS_SUPPORT_NULL_SESSION_H_

#include <memory>
#include <string>

#include "client/session.h"

namespace kiln {

// Of a session on the null device that asks the daemon at `socket`, and the
// fake worker when there is none.
SessionOptions NullSessionOptions(const std::string& socket);

// The report of a compile of the fake graph of `order`. Expects it to succeed.
CompileReport ReportOf(const std::shared_ptr<Session>& session,
                       const std::string& order);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_NULL_SESSION_H_
