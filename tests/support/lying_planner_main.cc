// A kiln-worker that a graph took over: it answers as the real one does, but what it
// plans is a lie that the request's cache tag asks for. Workers build what it planned
// with the machine's real compiler.
//
//   lie.include.PATH   every source includes this file
//   lie.source.N       every source has N megabytes of declarations more
//   lie.units.N        the plan has N units more
//   lie.bomb.N         the reply has N millions of empty units more
//
// What stands behind a space tells equal lies apart.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/answer_work.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/base/assemble.h"
#include "proto/base/frame.h"
#include "proto/jail/enter_jail.h"
#include "proto/jail/lowest_priority.h"

namespace kiln {
namespace {

constexpr int kSocketFd = 3;

std::string Declarations(int64_t megabytes) {
  std::string source;
  for (int64_t i = 0; static_cast<int64_t>(source.size()) < megabytes << 20;
       ++i)
    absl::StrAppend(&source, "extern int kiln_lie_", i, ";\n");
  return source;
}

void Lie(absl::string_view tag, wire::CompilePlan& plan) {
  std::string before;
  int64_t megabytes = 0;
  int units = 0;
  tag = tag.substr(0, tag.find(' '));
  if (absl::ConsumePrefix(&tag, "lie.include.")) {
    before = absl::StrCat("#include \"", tag, "\"\n");
  } else if (absl::ConsumePrefix(&tag, "lie.source.") &&
             absl::SimpleAtoi(tag, &megabytes)) {
    before = Declarations(megabytes);
  } else if (absl::ConsumePrefix(&tag, "lie.units.") &&
             absl::SimpleAtoi(tag, &units)) {
    for (int i = 0; i < units; ++i) {
      plan.add_units()->set_source(absl::StrCat("// ", i, "\n"));
    }
  }
  for (wire::TranslationUnit& unit : *plan.mutable_units()) {
    unit.set_source(absl::StrCat(before, unit.source()));
    unit.set_digest(UnitDigest(unit).ToBytes());
  }
}

// A plan of so many empty units, as the bytes of a reply: merged into what it has.
std::string Bomb(absl::string_view tag) {
  int64_t millions = 0;
  tag = tag.substr(0, tag.find(' '));
  if (!absl::ConsumePrefix(&tag, "lie.bomb.") ||
      !absl::SimpleAtoi(tag, &millions)) {
    return "";
  }
  wire::CompilePlan one;
  one.add_units();
  const std::string unit = one.SerializeAsString();
  std::string plan;
  for (int64_t i = 0; i < millions * 1'000'000; ++i) plan += unit;
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.WriteTag(wire::WorkReply::kPlanFieldNumber << 3 | 2);
  out.WriteVarint32(static_cast<uint32_t>(plan.size()));
  out.WriteString(plan);
  out.Trim();
  return bytes;
}

int Serve() {
  WorkBench bench;
  const char* path = getenv("PATH");
  const char* scratch = getenv("TMPDIR");
  bench.host =
      MakeHostCcToolchain({.search_path = path == nullptr ? "/usr/bin" : path,
                           .scratch_dir = scratch == nullptr ? "." : scratch});
  bench.nvrtc = MakeNvrtcToolchain({});
  bench.build_identity = Sha256Of("lying planner").ToBytes();
  while (true) {
    const absl::StatusOr<std::string> bytes = ReadFrame(kSocketFd);
    wire::WorkRequest request;
    if (!bytes.ok() || !request.ParseFromString(*bytes)) return 0;
    wire::WorkReply reply = AnswerWork(bench, request);
    const std::string& tag =
        request.plan().compile().options().artifact().cache_tag();
    std::string more;
    if (reply.has_plan()) {
      Lie(tag, *reply.mutable_plan());
      more = Bomb(tag);
    }
    if (!WriteFrame(kSocketFd, reply.SerializeAsString() + more).ok()) return 0;
    TakeLowestPriority();  // its hello is out
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::EnterJail(argc, argv);
  return kiln::Serve();
}
