#include "cache/explain.h"

#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/digest.h"
#include "proto/base/dtype.h"
#include "proto/base/sym_eval.h"

namespace kiln {
namespace {

std::string DTypeText(wire::DType dtype) {
  const auto known = DTypeFromWire(dtype);
  return known.has_value() ? std::string(ShortName(*known))
                           : absl::StrCat("dtype", static_cast<int>(dtype));
}

template <typename Exprs>
std::string ExprsText(const Exprs& exprs) {
  std::vector<std::string> texts;
  for (const wire::SymExpr& expr : exprs) texts.push_back(SymExprText(expr));
  return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
}

std::string MetaText(const wire::TensorMeta& meta) {
  std::string text =
      absl::StrCat(DTypeText(meta.dtype()), ExprsText(meta.sizes()),
                   " strides ", ExprsText(meta.strides()));
  if (meta.has_storage_offset()) {
    absl::StrAppend(&text, " offset ", SymExprText(meta.storage_offset()));
  }
  if (meta.device() == wire::DEVICE_TYPE_CUDA) absl::StrAppend(&text, " cuda");
  return text;
}

std::string ArgumentText(const wire::Argument& argument) {
  switch (argument.kind_case()) {
    case wire::Argument::kValue:
      return absl::StrCat("v", argument.value());
    case wire::Argument::kIntValue:
      return absl::StrCat(argument.int_value());
    case wire::Argument::kFloatValue:
      return absl::StrFormat("%.17g", argument.float_value());
    case wire::Argument::kBoolValue:
      return argument.bool_value() ? "true" : "false";
    case wire::Argument::kStringValue:
      return absl::StrCat("\"", absl::CHexEscape(argument.string_value()),
                          "\"");
    case wire::Argument::kSym:
      return SymExprText(argument.sym());
    case wire::Argument::kList: {
      std::vector<std::string> items;
      for (const wire::Argument& item : argument.list().items()) {
        items.push_back(ArgumentText(item));
      }
      return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
    }
    case wire::Argument::kNone:
      return "none";
    case wire::Argument::kDtype:
      return DTypeText(argument.dtype());
    case wire::Argument::kDevice:
      return wire::DeviceType_Name(argument.device());
    case wire::Argument::kMemoryFormat:
      return wire::MemoryFormat_Name(argument.memory_format());
    case wire::Argument::kLayout:
      return argument.layout();
    case wire::Argument::KIND_NOT_SET:
      return "?";
  }
  return "?";
}

std::string NodeText(const wire::Node& node) {
  std::vector<std::string> arguments;
  for (const wire::Argument& argument : node.args()) {
    arguments.push_back(ArgumentText(argument));
  }
  for (const wire::NamedArgument& argument : node.kwargs()) {
    arguments.push_back(
        absl::StrCat(argument.name(), "=", ArgumentText(argument.value())));
  }
  std::vector<std::string> results;
  for (const wire::TensorMeta& result : node.results()) {
    results.push_back(MetaText(result));
  }
  return absl::StrCat(node.op(), "(", absl::StrJoin(arguments, ", "), ") -> ",
                      absl::StrJoin(results, ", "));
}

std::string OutputText(const wire::Output& output) {
  std::string text = "none";
  if (output.has_value()) text = absl::StrCat("v", output.value());
  if (output.has_sym()) text = SymExprText(output.sym());
  if (output.strides_size() > 0) {
    absl::StrAppend(&text, " strides ", ExprsText(output.strides()));
  }
  return text;
}

}  // namespace

std::string GraphLines(const wire::Graph& graph) {
  std::string lines;
  for (int i = 0; i < graph.symbols_size(); ++i) {
    absl::StrAppend(&lines, "symbol ", i, ": [", graph.symbols(i).min(), ", ",
                    graph.symbols(i).max(), "]\n");
  }
  for (int i = 0; i < graph.inputs_size(); ++i) {
    const wire::Input& input = graph.inputs(i);
    absl::StrAppend(&lines, "input ", i, ": ",
                    input.has_tensor() ? MetaText(input.tensor())
                                       : SymExprText(input.scalar()));
    if (input.alignment_bytes() != 0) {
      absl::StrAppend(&lines, " aligned ", input.alignment_bytes());
    }
    lines += '\n';
  }
  for (int i = 0; i < graph.constants_size(); ++i) {
    absl::StrAppend(&lines, "constant ", i, ": ",
                    MetaText(graph.constants(i).tensor()), " ",
                    Sha256Of(graph.constants(i).data()).ShortHex(), "\n");
  }
  for (int i = 0; i < graph.nodes_size(); ++i) {
    absl::StrAppend(&lines, "node ", i, ": ", NodeText(graph.nodes(i)), "\n");
  }
  for (int i = 0; i < graph.outputs_size(); ++i) {
    absl::StrAppend(&lines, "output ", i, ": ", OutputText(graph.outputs(i)),
                    "\n");
  }
  for (int i = 0; i < graph.kernel_words_size(); ++i) {
    absl::StrAppend(&lines, "kernel word ", i, ": ",
                    absl::CHexEscape(graph.kernel_words(i)), "\n");
  }
  return lines;
}

std::string FirstDifferentLine(absl::string_view asked,
                               absl::string_view stored) {
  if (asked == stored) return "";
  constexpr size_t kShown = 200;
  const std::vector<absl::string_view> a = absl::StrSplit(asked, '\n');
  const std::vector<absl::string_view> b = absl::StrSplit(stored, '\n');
  size_t line = 0;
  while (line < a.size() && line < b.size() && a[line] == b[line]) ++line;
  const auto shown = [line](const std::vector<absl::string_view>& lines) {
    if (line >= lines.size() || lines[line].empty()) return std::string("end");
    return absl::StrCat("`", lines[line].substr(0, kShown), "`");
  };
  return absl::StrCat("line ", line + 1, ": ", shown(a), " against ", shown(b));
}

Digest LinesRecord(const Digest& graph, absl::string_view cache_namespace) {
  return Sha256()
      .AddField("kiln lines of a graph 1")
      .Add(graph.bytes())
      .AddField(cache_namespace)
      .Finish();
}

}  // namespace kiln
