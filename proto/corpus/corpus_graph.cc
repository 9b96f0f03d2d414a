#include "proto/corpus/corpus_graph.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/dtype.h"
#include "proto/base/status.h"
#include "proto/corpus/corpus_metas.h"
#include "proto/corpus/corpus_tensor.h"
#include "proto/corpus/corpus_words.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kAllocatorAlignment = 16;

absl::Status Unsupported(absl::string_view what) {
  return MakeError(ErrorReason::kUnsupportedOp, what);
}

absl::Status Malformed(absl::string_view what) {
  return MakeError(ErrorReason::kMalformedGraph, what);
}

// A symbolic integer as an argument: a plain integer when it is constant.
wire::Argument SymArgument(wire::SymExpr expr) {
  wire::Argument out;
  if (expr.code_size() == 0) {
    out.set_int_value(expr.value());
  } else {
    *out.mutable_sym() = std::move(expr);
  }
  return out;
}

wire::Argument NoneArgument() {
  wire::Argument out;
  out.mutable_none();
  return out;
}

// The meta of an input. A few were captured with a fake tensor's strides and
// offset: where no symbol is in them, those of the tensor itself count.
Json AsGiven(Json meta, const Json& given) {
  for (const char* field : {"shape", "stride"}) {
    for (const Json& dimension : meta.at(field)) {
      if (dimension.is_string()) return meta;
    }
  }
  for (const char* field : {"shape", "stride", "storage_offset"}) {
    meta[field] = given.at(field);
  }
  return meta;
}

class CaseReader {
 public:
  CaseReader(const Json& line, const Safetensors& tensors)
      : line_(line), tensors_(tensors) {}

  absl::StatusOr<wire::Graph> Read() {
    graph_.set_name(line_.at("name").get<std::string>());
    metas_.FindSymbols(line_);
    metas_.AddSymbols(graph_);
    size_t input = 0;
    // Values count inputs, then constants, then results, whatever the order
    // of the lines is.
    for (const Json& node : line_.at("nodes")) {
      if (node.at("op") != "placeholder") continue;
      RETURN_IF_ERROR(AddInput(node, line_.at("inputs").at(input++)));
    }
    for (const Json& node : line_.at("nodes")) {
      if (node.at("op") == "get_attr") RETURN_IF_ERROR(AddConstant(node));
    }
    for (const Json& node : line_.at("nodes")) {
      if (node.at("op") == "output") {
        RETURN_IF_ERROR(AddOutputs(node.at("args").at(0)));
      } else if (node.at("op") == "call_function") {
        const auto name = node.at("name").get<std::string>();
        RETURN_IF_ERROR(Annotate(AddNode(node), absl::StrCat("node ", name)));
      }
    }
    return std::move(graph_);
  }

 private:
  wire::Argument NextValue() {
    wire::Argument out;
    out.set_value(next_value_++);
    return out;
  }

  absl::Status AddInput(const Json& node, const Json& given) {
    const auto name = node.at("name").get<std::string>();
    const Json& meta = node.at("meta");
    wire::Input* input = graph_.add_inputs();
    input->set_name(name);
    const wire::Argument value = NextValue();
    if (IsTensorMeta(meta)) {
      absl::StatusOr<wire::TensorMeta> tensor =
          metas_.Meta(AsGiven(meta, given));
      RETURN_IF_ERROR(Annotate(tensor.status(), absl::StrCat("input ", name)));
      const std::optional<DType> dtype = DTypeFromWire(tensor->dtype());
      const wire::SymExpr& offset = tensor->storage_offset();
      if (dtype.has_value() && offset.code_size() == 0 &&
          offset.value() * SizeInBytes(*dtype) % kAllocatorAlignment == 0) {
        input->set_alignment_bytes(kAllocatorAlignment);
      }
      *input->mutable_tensor() = *std::move(tensor);
      named_[name] = value;
      return absl::OkStatus();
    }
    if (meta.is_object() && meta.contains("sym")) {
      ASSIGN_OR_RETURN(*input->mutable_scalar(), metas_.Expr(meta.at("sym")));
    } else if (given.contains("const") &&
               given.at("const").is_number_integer()) {
      input->mutable_scalar()->set_value(given.at("const").get<int64_t>());
    } else {
      return Unsupported(absl::StrCat("input ", name, ": neither a tensor nor ",
                                      "an integer: ", given.dump()));
    }
    named_[name] = SymArgument(input->scalar());
    return absl::OkStatus();
  }

  absl::Status AddConstant(const Json& node) {
    const auto name = node.at("name").get<std::string>();
    const auto target = node.at("target").get<std::string>();
    const Json& given = line_.at("constants").at(target);
    wire::Constant* constant = graph_.add_constants();
    constant->set_name(target);
    const bool has_meta = IsTensorMeta(node.at("meta"));
    absl::StatusOr<wire::TensorMeta> meta =
        metas_.Meta(has_meta ? node.at("meta") : given);
    RETURN_IF_ERROR(Annotate(meta.status(), absl::StrCat("constant ", target)));
    *constant->mutable_tensor() = *std::move(meta);
    // The data travels contiguous, whatever the strides were.
    constant->mutable_tensor()->clear_strides();
    const auto sizes = given.at("shape").get<std::vector<int64_t>>();
    for (const int64_t stride : ContiguousStrides(sizes)) {
      constant->mutable_tensor()->add_strides()->set_value(stride);
    }
    constant->mutable_tensor()->mutable_storage_offset()->set_value(0);
    if (given.contains("key")) {
      ASSIGN_OR_RETURN(const Safetensors::Tensor tensor,
                       tensors_.Find(given.at("key").get<std::string>()));
      constant->set_data(std::string(tensor.bytes));
    } else {
      ASSIGN_OR_RETURN(*constant->mutable_data(),
                       InlineValues(given, constant->tensor().dtype()));
    }
    named_[name] = NextValue();
    return absl::OkStatus();
  }

  static absl::StatusOr<std::string> InlineValues(const Json& given,
                                                  wire::DType wire_dtype) {
    const std::optional<DType> dtype = DTypeFromWire(wire_dtype);
    if (!dtype.has_value()) return Unsupported("constant of this dtype");
    const int64_t width = SizeInBytes(*dtype);
    std::string data;
    for (const Json& value : given.at("values")) {
      data.resize(data.size() + width);
      StoreElement(*dtype,
                   value.is_boolean() ? value.get<bool>() : value.get<double>(),
                   data.data() + data.size() - width);
    }
    return data;
  }

  absl::Status AddNode(const Json& node) {
    const auto name = node.at("name").get<std::string>();
    const auto target = node.at("target").get<std::string>();
    const Json& meta = node.at("meta");
    if (target == "<built-in function getitem>") return PickResult(node);
    if (meta.is_object() && meta.contains("sym")) {
      ASSIGN_OR_RETURN(wire::SymExpr expr, metas_.Expr(meta.at("sym")));
      named_[name] = SymArgument(std::move(expr));
      return absl::OkStatus();
    }
    if (target.empty() || target[0] == '<') return Unsupported(target);
    wire::Node out;
    out.set_name(name);
    out.set_op(target);
    for (const Json& arg : node.at("args")) {
      absl::StatusOr<wire::Argument> converted = Argument(arg);
      RETURN_IF_ERROR(Annotate(converted.status(), target));
      *out.add_args() = *std::move(converted);
    }
    for (const auto& [key, arg] : node.at("kwargs").items()) {
      absl::StatusOr<wire::Argument> converted = Argument(arg);
      RETURN_IF_ERROR(Annotate(converted.status(), target));
      wire::NamedArgument* added = out.add_kwargs();
      added->set_name(key);
      *added->mutable_value() = *std::move(converted);
    }
    RETURN_IF_ERROR(Annotate(AddResults(name, meta, out), target));
    *graph_.add_nodes() = std::move(out);
    return absl::OkStatus();
  }

  absl::Status AddResults(const std::string& name, const Json& meta,
                          wire::Node& out) {
    if (!meta.is_array()) {
      ASSIGN_OR_RETURN(named_[name], AddResult(meta, out));
      return absl::OkStatus();
    }
    wire::Argument all;
    all.mutable_list();
    for (const Json& one : meta) {
      ASSIGN_OR_RETURN(*all.mutable_list()->add_items(), AddResult(one, out));
    }
    named_[name] = std::move(all);
    return absl::OkStatus();
  }

  // Adds one result of `out` and gives what its name stands for. A result that
  // is no tensor keeps its place, without a dtype.
  absl::StatusOr<wire::Argument> AddResult(const Json& meta, wire::Node& out) {
    if (meta.is_array()) return Unsupported("result that is a list in a list");
    if (IsTensorMeta(meta)) {
      ASSIGN_OR_RETURN(*out.add_results(), metas_.Meta(meta));
      return NextValue();
    }
    out.add_results();
    ++next_value_;
    if (meta.is_object() && meta.contains("sym")) {
      ASSIGN_OR_RETURN(wire::SymExpr expr, metas_.Expr(meta.at("sym")));
      return SymArgument(std::move(expr));
    }
    if (meta.is_object() && meta.contains("const")) {
      return Argument(meta.at("const"));
    }
    return NoneArgument();
  }

  absl::Status PickResult(const Json& node) {
    const auto from = node.at("args").at(0).at("node").get<std::string>();
    const auto index = node.at("args").at(1).get<int64_t>();
    ASSIGN_OR_RETURN(const wire::Argument source, Named(from));
    if (!source.has_list() || index < 0 ||
        index >= source.list().items_size()) {
      return Malformed(
          absl::StrCat("getitem: no result ", index, " of ", from));
    }
    named_[node.at("name").get<std::string>()] = source.list().items(index);
    return absl::OkStatus();
  }

  absl::StatusOr<wire::Argument> Named(const std::string& name) const {
    const auto found = named_.find(name);
    if (found != named_.end()) return found->second;
    return Malformed(absl::StrCat(name, ": used before it is defined"));
  }

  absl::StatusOr<wire::Argument> Argument(const Json& json) const {
    wire::Argument out;
    switch (json.type()) {
      case Json::value_t::null:
        return NoneArgument();
      case Json::value_t::boolean:
        out.set_bool_value(json.get<bool>());
        return out;
      case Json::value_t::number_integer:
      case Json::value_t::number_unsigned:
        out.set_int_value(json.get<int64_t>());
        return out;
      case Json::value_t::number_float:
        out.set_float_value(json.get<double>());
        return out;
      case Json::value_t::string:
        out.set_string_value(json.get<std::string>());
        return out;
      case Json::value_t::array:
        out.mutable_list();
        for (const Json& item : json) {
          ASSIGN_OR_RETURN(*out.mutable_list()->add_items(), Argument(item));
        }
        return out;
      case Json::value_t::object:
        return TaggedArgument(json);
      case Json::value_t::binary:
      case Json::value_t::discarded:
        break;
    }
    return Malformed("argument that JSON cannot hold");
  }

  absl::StatusOr<wire::Argument> TaggedArgument(const Json& json) const {
    wire::Argument out;
    if (json.size() != 1) {
      return Unsupported(absl::StrCat("argument ", json.dump()));
    }
    const std::string& tag = json.begin().key();
    const Json& of = json.begin().value();
    if (tag == "node") return Named(of.get<std::string>());
    if (tag == "sym") {
      ASSIGN_OR_RETURN(wire::SymExpr expr, metas_.Expr(of));
      return SymArgument(std::move(expr));
    }
    if (tag == "dtype") {
      ASSIGN_OR_RETURN(const auto dtype, WireDType(of.get<std::string>()));
      out.set_dtype(dtype);
    } else if (tag == "device") {
      ASSIGN_OR_RETURN(const auto device, WireDevice(of.get<std::string>()));
      out.set_device(device);
    } else if (tag == "memory_format") {
      ASSIGN_OR_RETURN(const auto format,
                       WireMemoryFormat(of.get<std::string>()));
      out.set_memory_format(format);
    } else if (tag == "layout") {
      out.set_layout(of.get<std::string>());
    } else if (tag == "float") {
      ASSIGN_OR_RETURN(const double value, SpecialFloat(of.get<std::string>()));
      out.set_float_value(value);
    } else {
      return Unsupported(absl::StrCat("argument of kind ", tag));
    }
    return out;
  }

  absl::Status AddOutputs(const Json& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      wire::Output* output = graph_.add_outputs();
      ASSIGN_OR_RETURN(const wire::Argument result, Argument(results[i]));
      switch (result.kind_case()) {
        case wire::Argument::kValue:
          output->set_value(result.value());
          RETURN_IF_ERROR(AskForStrides(i, *output));
          break;
        case wire::Argument::kSym:
          *output->mutable_sym() = result.sym();
          break;
        case wire::Argument::kIntValue:
          output->mutable_sym()->set_value(result.int_value());
          break;
        case wire::Argument::kNone:
          output->mutable_none();
          break;
        default:  // the rest are no results
          return Unsupported(
              absl::StrCat("output ", i, ": ", results[i].dump()));
      }
    }
    return absl::OkStatus();
  }

  // The strides PyTorch gave are the truth; those of a meta are a fake
  // tensor's. With symbols only the latter hold for every size.
  absl::Status AskForStrides(size_t index, wire::Output& output) {
    if (graph_.symbols_size() == 0 && line_.contains("outputs") &&
        line_.at("outputs").at(index).contains("stride")) {
      for (const Json& stride : line_.at("outputs")[index].at("stride")) {
        ASSIGN_OR_RETURN(*output.add_strides(), metas_.Expr(stride));
      }
      return absl::OkStatus();
    }
    const wire::TensorMeta* meta = MetaOf(output.value());
    if (meta == nullptr) return Malformed("output: not a value");
    *output.mutable_strides() = meta->strides();
    return absl::OkStatus();
  }

  const wire::TensorMeta* MetaOf(uint32_t value) const {
    const uint32_t inputs = graph_.inputs_size();
    const uint32_t constants = graph_.constants_size();
    if (value < inputs) return &graph_.inputs(value).tensor();
    value -= inputs;
    if (value < constants) return &graph_.constants(value).tensor();
    value -= constants;
    for (const wire::Node& node : graph_.nodes()) {
      const uint32_t results = node.results_size();
      if (value < results) return &node.results(value);
      value -= results;
    }
    return nullptr;
  }

  const Json& line_;
  const Safetensors& tensors_;
  CorpusMetas metas_;
  wire::Graph graph_;
  uint32_t next_value_ = 0;
  // What each node's name stands for: a value, an integer, a list of results.
  std::map<std::string, wire::Argument> named_;
};

}  // namespace

absl::StatusOr<wire::Graph> GraphOfCase(const Json& line,
                                        const Safetensors& tensors) {
  return CaseReader(line, tensors).Read();
}

}  // namespace kiln
