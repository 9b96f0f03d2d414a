#include "compiler/codegen/staged_loads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "compiler/loop/index_expr.h"

namespace kiln {
namespace {

// An asynchronous copy moves four bytes or more.
constexpr int64_t kLeastCopied = 4;

}  // namespace

StagedLoads::StagedLoads(CudaBody& body, const CudaRows& variant,
                         const KernelPasses& passes,
                         const std::vector<ScalarId>& held)
    : body_(body),
      variant_(variant),
      groups_(held),
      slots_(body.nest.body.size()),
      first_byte_(body.nest.body.size(), 0) {
  if (variant.stages == 0) return;
  for (const KernelPass& pass : passes.passes) {
    for (ScalarId id : pass.before) {
      const ScalarNode& node = body.nest.body[id];
      if (body.MayLoadAhead(id) && SizeInBytes(node.dtype) >= kLeastCopied)
        of_row_.push_back(id);
    }
  }
  const auto take = [&](ScalarId id, int64_t slots) {
    slots_[id] = body.Fresh("c");
    first_byte_[id] = bytes_;
    const int64_t bytes = slots * variant.stages * Threads() * SlotBytes(id);
    bytes_ += (bytes + kMaxAccessBytes - 1) / kMaxAccessBytes * kMaxAccessBytes;
  };
  for (ScalarId id : groups_) take(id, variant.held);
  for (ScalarId id : of_row_) take(id, 1);
}

int64_t StagedLoads::SlotBytes(ScalarId load) const {
  const int64_t width = body_.IsLanes(load) ? body_.vectors.width : 1;
  const int64_t bytes = width * SizeInBytes(body_.nest.body[load].dtype);
  return (bytes + kLeastCopied - 1) / kLeastCopied * kLeastCopied;
}

void StagedLoads::Declare() {
  body_.out.Line("extern __shared__ k_words<4> staged[];");
  const auto declare = [&](ScalarId id, const std::string& type) {
    body_.out.Line(type, "* const ", slots_[id], " = (", type,
                   "*)((char*)staged + ", first_byte_[id],
                   ") + (int)threadIdx.x;");
  };
  for (ScalarId id : groups_) declare(id, body_.PackType(id));
  for (ScalarId id : of_row_)
    declare(id, std::string(CTypeName(body_.nest.body[id].dtype)));
}

std::string StagedLoads::GroupSlot(ScalarId load,
                                   const std::string& stage) const {
  const std::string group =
      variant_.stages == 1
          ? "k"
          : absl::StrCat("(", stage, " * ", variant_.held, " + k)");
  return absl::StrCat(slots_[load], "[", group, " * ", Threads(), "]");
}

std::string StagedLoads::RowSlot(ScalarId load,
                                 const std::string& stage) const {
  return absl::StrCat(slots_[load], "[", stage, " * ", Threads(), "]");
}

void StagedLoads::CopyRow(const std::string& stage) {
  for (ScalarId id : of_row_) {
    const ScalarNode& node = body_.nest.body[id];
    body_.out.Line("k_copy<", SizeInBytes(node.dtype), ">(&",
                   RowSlot(id, stage), ", ", body_.BufferName(node.buffer),
                   " + ", body_.Index(body_.facts.load_offset[id]), ");");
  }
}

void StagedLoads::CopyGroup(const std::string& stage) {
  for (ScalarId id : groups_) body_.CopyAhead(id, GroupSlot(id, stage));
}

void StagedLoads::ReadRow(const std::string& stage) {
  for (ScalarId id : of_row_) {
    const std::string name = body_.Fresh("h");
    body_.out.Line("const ", CTypeName(body_.nest.body[id].dtype), " ", name,
                   " = ", RowSlot(id, stage), ";");
    body_.SetText(id, name);
  }
}

void StagedLoads::ReadGroup(const std::vector<ScalarId>& ids,
                            const std::string& stage) {
  for (ScalarId id : groups_) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) continue;
    const std::string name = body_.Fresh("h");
    body_.out.Line("const ", body_.PackType(id), " ", name, " = k_own(",
                   GroupSlot(id, stage), ");");
    body_.ReadFrom(id, name);
  }
}

}  // namespace kiln
