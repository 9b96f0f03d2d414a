#include "compiler/graph/op_table.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/op_families.h"
#include "compiler/graph/schema_parser.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct OpTable {
  std::vector<OpDef> ops;
  absl::flat_hash_map<absl::string_view, uint32_t> by_name;
  // Names that rows do not hold themselves: those of in-place forms. Reserved
  // before use, so that they never move.
  std::vector<std::string> names;
  absl::Status sound;
};

// "aten.add.Tensor" becomes "aten.add_.Tensor".
std::string InplaceName(absl::string_view name) {
  const size_t dot = name.rfind('.');
  return absl::StrCat(name.substr(0, dot), "_", name.substr(dot));
}

void Add(OpTable& table, OpDef op) {
  op.index = static_cast<uint32_t>(table.ops.size());
  if (!table.by_name.emplace(op.name, op.index).second) {
    table.sound.Update(
        absl::InternalError(absl::StrCat(op.name, ": stands in two rows")));
  }
  table.ops.push_back(std::move(op));
}

void AddRow(OpTable& table, const OpRow& row) {
  OpDef op;
  op.name = row.name;
  op.schema_text = row.schema;
  op.infer = row.infer;
  op.handling = row.handling;
  absl::StatusOr<Schema> schema = ParseSchema(row.schema);
  if (!schema.ok()) {
    table.sound.Update(Annotate(schema.status(), row.name));
    return;
  }
  op.schema = *std::move(schema);
  if (row.infer == nullptr) {
    table.sound.Update(
        absl::InternalError(absl::StrCat(row.name, ": has no inference rule")));
  }
  Add(table, std::move(op));
}

// The in-place form of a row: its first parameter is mutated and returned.
void AddInplace(OpTable& table, const OpRow& row) {
  OpDef op = table.ops[table.by_name.at(row.name)];
  table.names.push_back(InplaceName(row.name));
  op.name = table.names.back();
  op.handling = Handling::kMutate;
  op.schema.params[0].mutated = true;
  op.schema.params[0].alias_set = 0;
  op.schema.results = {{/*list=*/false, /*alias_set=*/0}};
  Add(table, std::move(op));
}

// In-place forms whose functional operator has a name of its own.
constexpr std::pair<absl::string_view, absl::string_view> kFunctionalOf[] = {
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
};

OpTable MakeOpTable() {
  const absl::Span<const OpRow> families[] = {
      UnaryOps(),       BinaryOps(),    TernaryOps(), ActivationOps(),
      FactoryOps(),     CopyOps(),      ViewOps(),    ReductionOps(),
      MatmulOps(),      NormOps(),      LossOps(),    IndexOps(),
      ConvolutionOps(), ShapeOps(),     PoolingOps(), AttentionOps(),
      ForeachOps(),     EmbeddingOps(), OrderOps(),   ViewCopyOps(),
      RearrangeOps(),   AssertionOps()};
  OpTable table;
  size_t rows = 0;
  for (const auto& family : families) rows += family.size();
  table.ops.reserve(2 * rows);
  table.names.reserve(rows);
  for (const auto& family : families) {
    for (const OpRow& row : family) AddRow(table, row);
  }
  for (const auto& family : families) {
    for (const OpRow& row : family) {
      if (row.inplace == OpRow::Inplace::kYes && table.sound.ok()) {
        AddInplace(table, row);
      }
    }
  }
  // Every form that mutates knows its functional one: the same name without
  // the last '_'.
  for (OpDef& op : table.ops) {
    if (op.handling != Handling::kMutate) continue;
    const size_t dot = op.name.rfind('.');
    std::string functional =
        absl::StrCat(op.name.substr(0, dot - 1), op.name.substr(dot));
    for (const auto& [inplace, other] : kFunctionalOf) {
      if (inplace == op.name) functional = std::string(other);
    }
    const auto found = table.by_name.find(functional);
    if (found == table.by_name.end()) {
      table.sound.Update(absl::InternalError(
          absl::StrCat(op.name, ": has no functional form ", functional)));
    } else {
      op.functional = &table.ops[found->second];
    }
  }
  return table;
}

const OpTable& Table() {
  static const OpTable* const table = new OpTable(MakeOpTable());
  return *table;
}

// Levenshtein's distance, of short words.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string PacketName(absl::string_view op) {
  const size_t first = op.find('.');
  if (first != absl::string_view::npos) op.remove_prefix(first + 1);
  std::string name(op.substr(0, op.find('.')));
  for (char& c : name) c = absl::ascii_isalnum(c) ? c : '_';
  return name;
}

const OpDef* FindOp(absl::string_view name) {
  const OpTable& table = Table();
  const auto found = table.by_name.find(name);
  return found == table.by_name.end() ? nullptr : &table.ops[found->second];
}

const OpDef& KnownOp(absl::string_view name) {
  const OpDef* op = FindOp(name);
  if (op == nullptr) {
    std::fprintf(stderr, "op_table: our own code asks for %s\n",
                 std::string(name).c_str());
    std::abort();
  }
  return *op;
}

absl::Status UnknownOp(absl::string_view name, bool look_for_near) {
  // Distance is quadratic: a hostile name is compared by its start.
  const absl::string_view shown = name.substr(0, 100);
  std::vector<std::pair<size_t, absl::string_view>> near;
  for (const OpDef& op : Table().ops) {
    if (!look_for_near) break;
    const size_t distance = Distance(shown, op.name);
    if (distance <= shown.size() / 3) near.push_back({distance, op.name});
  }
  std::sort(near.begin(), near.end());
  if (near.size() > 3) near.resize(3);
  std::string message = absl::StrCat("operator ", shown, " is not known");
  if (!near.empty()) {
    absl::StrAppend(&message, "; near: ",
                    absl::StrJoin(near, ", ", [](std::string* out, auto& row) {
                      absl::StrAppend(out, row.second);
                    }));
  }
  return MakeError(ErrorReason::kUnsupportedOp, message);
}

absl::Span<const OpDef> AllOps() { return Table().ops; }

absl::Status CheckOpTable() { return Table().sound; }

}  // namespace kiln
