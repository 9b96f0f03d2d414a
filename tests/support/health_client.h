#ifndef KILN_TESTS_SUPPORT_HEALTH_CLIENT_H_
#define KILN_TESTS_SUPPORT_HEALTH_CLIENT_H_

#include <string>

namespace kiln {

// Asks gRPC's health service at `address` ("unix:/path", "127.0.0.1:7117").
// "SERVING", "NOT_SERVING", or "error 14 words" with gRPC's code.
std::string AskHealth(const std::string& address);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_HEALTH_CLIENT_H_
