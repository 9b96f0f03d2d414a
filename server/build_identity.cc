#include "server/build_identity.h"

#include "absl/strings/str_cat.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

constexpr absl::string_view kNvrtc = "nvrtc";

}  // namespace

std::string ToolchainText(const wire::HelloReply& hello) {
  std::string text;
  for (const wire::Toolchain& tool : hello.toolchains()) {
    if (!tool.missing().empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", tool.name(), " ",
                    tool.version());
  }
  return text.empty() ? "none" : text;
}

BuildIdentity BuildIdentityOf(const wire::HelloReply& hello) {
  BuildIdentity build;
  build.worker = Sha256Of(hello.build_identity());
  build.worker_text = absl::StrCat("kiln-worker ", build.worker.ShortHex());
  build.toolchain_text = ToolchainText(hello);
  build.toolchain = Sha256Of(build.toolchain_text);
  return build;
}

wire::DescribeReply DescriptionOf(const wire::HelloReply& hello,
                                  absl::string_view version,
                                  absl::string_view public_key,
                                  int64_t max_message_bytes) {
  bool cpu = false;
  bool cuda = false;
  for (const wire::Toolchain& tool : hello.toolchains()) {
    if (!tool.missing().empty()) continue;
    (tool.name() == kNvrtc ? cuda : cpu) = true;
  }
  wire::DescribeReply reply;
  reply.set_version(std::string(version));
  reply.set_public_key(std::string(public_key));
  reply.set_build_identity(hello.build_identity());
  if (cpu) reply.add_targets("cpu");
  if (cuda) reply.add_targets("cuda");
  reply.set_max_message_bytes(static_cast<uint64_t>(max_message_bytes));
  return reply;
}

}  // namespace kiln
