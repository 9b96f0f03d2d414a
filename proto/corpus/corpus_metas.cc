#include "proto/corpus/corpus_metas.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"
#include "proto/corpus/corpus_words.h"
#include "proto/corpus/sym_text.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

// PyTorch's own bound of a size it has not specialized.
constexpr int64_t kSmallestSymbol = 2;
constexpr int64_t kLargestSymbol = (int64_t{1} << 62) - 1;

}  // namespace

bool IsTensorMeta(const Json& meta) {
  return meta.is_object() && meta.contains("dtype") && meta.contains("shape");
}

void CorpusMetas::FindSymbols(const Json& line) {
  size_t input = 0;
  for (const Json& node : line.at("nodes")) {
    if (node.at("op") != "placeholder") continue;
    const Json& given = line.at("inputs").at(input++);
    const Json& meta = node.at("meta");
    if (!meta.is_object()) continue;
    if (meta.contains("sym")) {
      NameSymbols(meta.at("sym"), meta.value("hint", Json()));
    } else if (IsTensorMeta(meta)) {
      for (const char* field : {"shape", "stride"}) {
        for (size_t d = 0; d < meta.at(field).size(); ++d) {
          NameSymbols(meta.at(field)[d], given.at(field).at(d));
        }
      }
      NameSymbols(meta.at("storage_offset"), given.at("storage_offset"));
    }
  }
}

void CorpusMetas::NameSymbols(const Json& expression, const Json& hint) {
  if (!expression.is_string()) return;
  const auto text = expression.get<std::string>();
  VisitSymbolNames(text, [&](absl::string_view name) {
    const auto number = static_cast<int64_t>(symbols_.size());
    if (!numbers_.emplace(std::string(name), number).second) return;
    wire::Symbol symbol;
    symbol.set_name(std::string(name));
    symbol.set_min(kSmallestSymbol);
    symbol.set_max(kLargestSymbol);
    if (name == text && hint.is_number_integer()) {
      symbol.set_hint(hint.get<int64_t>());
    }
    symbols_.push_back(std::move(symbol));
  });
}

void CorpusMetas::AddSymbols(wire::Graph& graph) const {
  for (const wire::Symbol& symbol : symbols_) *graph.add_symbols() = symbol;
}

absl::StatusOr<wire::SymExpr> CorpusMetas::Expr(const Json& dimension) const {
  wire::SymExpr constant;
  if (dimension.is_number_integer()) {
    constant.set_value(dimension.get<int64_t>());
    return constant;
  }
  if (!dimension.is_string()) {
    return MakeError(
        ErrorReason::kMalformedGraph,
        absl::StrCat("size ", dimension.dump(), ": expected an integer"));
  }
  return ParseSymText(
      dimension.get<std::string>(),
      [this](absl::string_view name) -> absl::StatusOr<int64_t> {
        const auto found = numbers_.find(std::string(name));
        if (found != numbers_.end()) return found->second;
        return MakeError(ErrorReason::kUnsupportedOp,
                         absl::StrCat("symbol ", name, " that no input gives"));
      });
}

absl::StatusOr<wire::TensorMeta> CorpusMetas::Meta(const Json& json) const {
  wire::TensorMeta meta;
  ASSIGN_OR_RETURN(const wire::DType dtype,
                   WireDType(json.at("dtype").get<std::string>()));
  meta.set_dtype(dtype);
  for (const Json& size : json.at("shape")) {
    ASSIGN_OR_RETURN(*meta.add_sizes(), Expr(size));
  }
  for (const Json& stride : json.at("stride")) {
    ASSIGN_OR_RETURN(*meta.add_strides(), Expr(stride));
  }
  ASSIGN_OR_RETURN(*meta.mutable_storage_offset(),
                   Expr(json.at("storage_offset")));
  ASSIGN_OR_RETURN(const wire::DeviceType device,
                   WireDevice(json.value("device", "cpu")));
  meta.set_device(device);
  return meta;
}

}  // namespace kiln
