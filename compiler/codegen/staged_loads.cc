#include "compiler/codegen/staged_loads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/loop/index_expr.h"

namespace kiln {

StagedLoads::StagedLoads(CudaBody& body, const CudaRows& variant,
                         const KernelPasses& passes)
    : body_(body),
      variant_(variant),
      rows_(StagedRowsOf(variant, body.nest, body.facts, body.vectors, passes)),
      slots_(body.nest.body.size()) {
  for (ScalarId id : rows_.groups) slots_[id] = body.Fresh("c");
  for (ScalarId id : rows_.once) slots_[id] = body.Fresh("c");
}

void StagedLoads::Declare() {
  body_.out.Line("extern __shared__ k_words<4> staged[];");
  const auto declare = [&](ScalarId id, const std::string& type) {
    body_.out.Line(type, "* const ", slots_[id], " = (", type,
                   "*)((char*)staged + ", rows_.first_byte[id],
                   ") + (int)threadIdx.x;");
  };
  for (ScalarId id : rows_.groups) declare(id, body_.PackType(id));
  for (ScalarId id : rows_.once)
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
  for (ScalarId id : rows_.once) {
    const ScalarNode& node = body_.nest.body[id];
    body_.out.Line("k_copy<", SizeInBytes(node.dtype), ">(&",
                   RowSlot(id, stage), ", ", body_.BufferName(node.buffer),
                   " + ", body_.Index(body_.facts.load_offset[id]), ");");
  }
}

void StagedLoads::CopyGroup(const std::string& stage) {
  for (ScalarId id : rows_.groups) body_.CopyAhead(id, GroupSlot(id, stage));
}

void StagedLoads::ReadRow(const std::string& stage) {
  for (ScalarId id : rows_.once) {
    const std::string name = body_.Fresh("h");
    body_.out.Line("const ", CTypeName(body_.nest.body[id].dtype), " ", name,
                   " = ", RowSlot(id, stage), ";");
    body_.SetText(id, name);
  }
}

void StagedLoads::ReadGroup(const std::vector<ScalarId>& ids,
                            const std::string& stage) {
  for (ScalarId id : rows_.groups) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) continue;
    const std::string name = body_.Fresh("h");
    body_.out.Line("const ", body_.PackType(id), " ", name, " = k_own(",
                   GroupSlot(id, stage), ");");
    body_.ReadFrom(id, name);
  }
}

}  // namespace kiln
