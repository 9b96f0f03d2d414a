#include "server/build_identity.h"

#include "absl/strings/str_cat.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

constexpr absl::string_view kNvrtc = "nvrtc";

bool IsForCuda(const wire::Toolchain& tool) { return tool.name() == kNvrtc; }

// Of the compilers that were found, those for which `chosen` is true.
template <typename Chosen>
std::string TextOf(const wire::HelloReply& hello, Chosen chosen) {
  std::string text;
  for (const wire::Toolchain& tool : hello.toolchains()) {
    if (!tool.missing().empty() || !chosen(tool)) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", tool.name(), " ",
                    tool.version());
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string ToolchainText(const wire::HelloReply& hello) {
  return TextOf(hello, [](const wire::Toolchain&) { return true; });
}

std::string ToolchainFor(const wire::HelloReply& hello,
                         const wire::Target& target) {
  return TextOf(hello, [&](const wire::Toolchain& tool) {
    return IsForCuda(tool) == target.has_cuda();
  });
}

BuildIdentity BuildIdentityOf(const wire::HelloReply& hello) {
  wire::Target cpu, cuda;
  cpu.mutable_cpu();
  cuda.mutable_cuda();
  BuildIdentity build;
  build.compiler = Digest::FromBytes(hello.build_identity())
                       .value_or(Sha256Of(hello.build_identity()));
  build.compiler_text = absl::StrCat("kiln-worker ", build.compiler.ShortHex());
  build.cpu_toolchain = ToolchainFor(hello, cpu);
  build.cuda_toolchain = ToolchainFor(hello, cuda);
  return build;
}

wire::DescribeReply DescriptionOf(const wire::HelloReply& hello,
                                  absl::string_view version,
                                  int64_t max_message_bytes) {
  bool cpu = false;
  bool cuda = false;
  for (const wire::Toolchain& tool : hello.toolchains()) {
    if (!tool.missing().empty()) continue;
    (IsForCuda(tool) ? cuda : cpu) = true;
  }
  wire::DescribeReply reply;
  reply.set_version(std::string(version));
  reply.set_build_identity(hello.build_identity());
  if (cpu) reply.add_targets("cpu");
  if (cuda) reply.add_targets("cuda");
  reply.set_max_message_bytes(static_cast<uint64_t>(max_message_bytes));
  return reply;
}

}  // namespace kiln
