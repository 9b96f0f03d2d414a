#ifndef KILN_TESTS_CLIENT_C_API_LOCAL_SESSION_H_
#define KILN_TESTS_CLIENT_C_API_LOCAL_SESSION_H_

#include <filesystem>
#include <string>

#include "client/c_api/kiln.h"
#include "gtest/gtest.h"

namespace kiln {

// A session of the C ABI with a worker of the test's own.
class LocalSession : public testing::Test {
 protected:
  LocalSession() {
    const std::string worker =
        std::filesystem::absolute("compiler/kiln-worker").string();
    KilnSessionOptions options = {};
    options.struct_size = sizeof(options);
    options.fallback = KILN_LOCAL_ONLY;
    options.worker_program = worker.c_str();
    options.threads = 1;
    EXPECT_EQ(kiln_session_open(&options, &session_), nullptr);
  }
  ~LocalSession() override { kiln_session_close(session_); }

  KilnSession* session() { return session_; }

 private:
  KilnSession* session_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_TESTS_CLIENT_C_API_LOCAL_SESSION_H_
