#include "compiler/graph/graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/bind_arguments.h"
#include "compiler/graph/fix_symbols.h"
#include "compiler/graph/infer_meta.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

void VisitArgument(const Argument& arg,
                   absl::FunctionRef<void(ValueId)> visit) {
  if (arg.is_value()) {
    visit(arg.value());
  } else if (arg.is_list()) {
    for (const Argument& item : arg.list()) VisitArgument(item, visit);
  }
}

}  // namespace

ValueId Graph::AddValue(Value value) {
  values_.push_back(std::move(value));
  return ValueId{static_cast<uint32_t>(values_.size() - 1)};
}

ValueId Graph::AddInput(std::string name, TensorMeta meta,
                        uint32_t alignment_bytes) {
  Value value;
  value.meta = std::move(meta);
  value.name = std::move(name);
  const ValueId id = AddValue(std::move(value));
  inputs.push_back({id, alignment_bytes});
  return id;
}

ValueId Graph::AddConstant(std::string name, TensorMeta meta,
                           std::string data) {
  Value value;
  value.meta = std::move(meta);
  value.name = std::move(name);
  const ValueId id = AddValue(std::move(value));
  constants.push_back({id, std::move(data)});
  return id;
}

absl::Status Graph::DropLeftOut(const OpDef& op, Arguments& args) const {
  const auto left_out = [this](const Argument& a) {
    return a.is_value() && !meta(a.value()).defined;
  };
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& param = op.schema.params[i];
    bool refused = false;
    if (left_out(args[i])) {
      refused = param.type != ParamType::kOptionalTensor;
      args[i] = NoneArgument();
    } else if (args[i].is_list()) {
      for (Argument& item : std::get<Argument::List>(args[i].v)) {
        if (!left_out(item)) continue;
        refused = param.type != ParamType::kOptionalTensorList;
        item = NoneArgument();
      }
    }
    if (refused) {
      return MakeError(ErrorReason::kMalformedGraph,
                       absl::StrCat(op.name, ": argument ", param.name,
                                    " is a result that its operator left out"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueIds> Graph::AddNode(const OpDef& op, Arguments args,
                                        absl::string_view result_name) {
  ASSIGN_OR_RETURN(Arguments bound, BindArguments(op, std::move(args)));
  RETURN_IF_ERROR(DropLeftOut(op, bound));
  FixArguments(shapes, bound);
  const auto meta_of = [this](const Argument& a) -> const TensorMeta& {
    return meta(a.value());
  };
  absl::StatusOr<TensorMetas> metas =
      InferMeta(op, bound, meta_of, shapes, device);
  // A number that inference had to know is one from here on.
  if (metas.ok() && FixArguments(shapes, bound)) {
    metas = InferMeta(op, bound, meta_of, shapes, device);
  }
  if (!metas.ok()) return metas.status();

  Node node;
  node.op = &op;
  node.args = std::move(bound);
  const uint32_t index = static_cast<uint32_t>(nodes_.size());
  for (size_t i = 0; i < metas->size(); ++i) {
    Value value;
    value.meta = std::move((*metas)[i]);
    if (!result_name.empty()) {
      value.name =
          i == 0 ? std::string(result_name) : absl::StrCat(result_name, "_", i);
    }
    value.node = index;
    value.result = static_cast<uint32_t>(i);
    node.results.push_back(AddValue(std::move(value)));
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().results;
}

void Graph::VisitValues(const Node& node,
                        absl::FunctionRef<void(ValueId)> visit) {
  for (const Argument& arg : node.args) VisitArgument(arg, visit);
}

bool Graph::RetainNodes(const std::vector<bool>& keep) {
  bool all = true;
  for (const bool k : keep) all = all && k;
  if (all) return false;
  GraphRewriter rewriter(*this);
  for (uint32_t i = 0; i < rewriter.num_old_nodes(); ++i) {
    if (keep[i]) rewriter.Keep(i);
  }
  rewriter.Finish();
  return true;
}

}  // namespace kiln
