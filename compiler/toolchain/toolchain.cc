#include "compiler/toolchain/toolchain.h"

#include "absl/strings/str_cat.h"

namespace kiln {

std::vector<std::string> UnitFlags(const Target& target) {
  switch (target.kind) {
    case TargetKind::kCuda:
      // --minimal: no built-in headers; it halves the floor of a call.
      // 177, 186: an unused name, a comparison of an unsigned with zero.
      return {absl::StrCat("--gpu-architecture=", target.name),
              "--minimal",
              "--std=c++17",
              "--fmad=false",
              "--diag-suppress=177,186",
              "--device-as-default-execution-space"};
    case TargetKind::kCpu:
      return {"-std=c++17",
              "-O3",
              absl::StrCat("-march=", target.name),
              "-mtune=generic",
              "-ffp-contract=off",
              "-fno-math-errno",
              "-fno-trapping-math",
              "-fno-exceptions",
              "-fno-rtti",
              "-fno-asynchronous-unwind-tables",
              "-fno-stack-protector",
              "-fvisibility=hidden",
              "-fPIC",
              "-Wno-psabi"};
  }
  return {};
}

}  // namespace kiln
