#ifndef KILN_TESTS_COMPILER_TUNE_ECHO_TOOLCHAIN_H_
#define KILN_TESTS_COMPILER_TUNE_ECHO_TOOLCHAIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/toolchain/toolchain.h"

namespace kiln {

// Its objects are the sources.
class EchoToolchain final : public Toolchain {
 public:
  std::string path() const override { return "echo"; }
  absl::string_view name() const override { return "echo"; }
  absl::StatusOr<std::string> Version() override { return "1"; }
  absl::StatusOr<BuiltObject> Build(absl::string_view source,
                                    absl::Span<const std::string>) override {
    return BuiltObject{std::string(source), ""};
  }
};

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_TUNE_ECHO_TOOLCHAIN_H_
