#include "proto/corpus/corpus_case.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"
#include "proto/corpus/corpus_bytes.h"
#include "proto/corpus/corpus_graph.h"
#include "proto/corpus/corpus_words.h"
#include "proto/corpus/safetensors.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

absl::StatusOr<TensorLayout> ReadLayout(const Json& json) {
  const auto name = json.at("dtype").get<std::string>();
  const std::optional<DType> dtype = DTypeFromTorchName(name);
  if (!dtype.has_value()) {
    return MakeError(ErrorReason::kUnsupportedOp, absl::StrCat("dtype ", name));
  }
  TensorLayout layout;
  layout.dtype = *dtype;
  layout.sizes = json.at("shape").get<std::vector<int64_t>>();
  layout.strides = json.at("stride").get<std::vector<int64_t>>();
  layout.storage_offset = json.at("storage_offset").get<int64_t>();
  if (layout.sizes.size() != layout.strides.size()) {
    return MakeError(ErrorReason::kMalformedGraph,
                     absl::StrCat("tensor ", json.dump(),
                                  ": sizes and strides differ in number"));
  }
  return layout;
}

absl::StatusOr<CorpusTensor> ReadTensor(const Json& json,
                                        const Safetensors& tensors) {
  ASSIGN_OR_RETURN(const TensorLayout layout, ReadLayout(json));
  const auto key = json.at("key").get<std::string>();
  ASSIGN_OR_RETURN(const Safetensors::Tensor stored, tensors.Find(key));
  ASSIGN_OR_RETURN(const wire::DType dtype, SafetensorsDType(stored.dtype));
  if (dtype != ToWire(layout.dtype)) {
    return absl::DataLossError(absl::StrCat(
        key, ": found ", stored.dtype, ", expected ", TorchName(layout.dtype)));
  }
  absl::StatusOr<CorpusTensor> tensor = LayOut(layout, stored.bytes);
  if (!tensor.ok()) return Annotate(tensor.status(), key);
  return tensor;
}

absl::StatusOr<CorpusValue> ReadValue(const Json& json,
                                      const Safetensors& tensors) {
  if (!json.contains("const")) {
    ASSIGN_OR_RETURN(CorpusTensor tensor, ReadTensor(json, tensors));
    return CorpusValue(std::move(tensor));
  }
  const Json& value = json.at("const");
  if (value.is_null()) return CorpusValue();
  if (value.is_number_integer()) return CorpusValue(value.get<int64_t>());
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("constant ", value.dump()));
}

// PyTorch's default absolute tolerance; for mutated inputs without their own.
Tolerance DefaultTolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return {.rtol = 1e-7, .atol = 1e-7};
    case DType::kFloat32:
      return {.rtol = 1.3e-6, .atol = 1e-5};
    case DType::kBFloat16:
      return {.rtol = 1.6e-2, .atol = 1e-5};
    case DType::kFloat16:
      return {.rtol = 1e-3, .atol = 1e-5};
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {};
  }
  return {};
}

absl::Status ReadTolerance(const Json& json, CorpusCase& out) {
  const auto rtol = json.at("rtol").get<double>();
  for (const Json& atol : json.at("atol")) {
    out.output_tolerance.push_back(
        {.rtol = rtol, .atol = atol.is_number() ? atol.get<double>() : 0});
  }
  if (out.output_tolerance.size() != out.outputs.size()) {
    return MakeError(ErrorReason::kMalformedGraph,
                     "expected one atol for each output");
  }
  const Json own = json.value("mutated_atol", Json::object());
  for (const auto& [input, tensor] : out.mutated) {
    const std::string key = absl::StrCat(input);
    Tolerance tolerance = DefaultTolerance(tensor.layout.dtype);
    if (own.contains(key)) {
      tolerance.atol = own.at(key).get<double>();
    }
    tolerance.rtol = std::max(tolerance.rtol, rtol);
    out.mutated_tolerance[input] = tolerance;
  }
  return absl::OkStatus();
}

absl::Status ReadSpecs(const Json& inputs, CorpusCase& out) {
  for (const Json& input : inputs) {
    if (input.contains("const")) {
      if (!input.at("const").is_number_integer()) {
        return MakeError(ErrorReason::kUnsupportedOp,
                         absl::StrCat("input ", input.dump()));
      }
      out.specs.emplace_back(input.at("const").get<int64_t>());
      continue;
    }
    CorpusInputSpec spec;
    ASSIGN_OR_RETURN(spec.layout, ReadLayout(input));
    if (input.contains("int_range")) {
      spec.int_range = {input.at("int_range").at(0).get<int64_t>(),
                        input.at("int_range").at(1).get<int64_t>()};
    }
    out.specs.emplace_back(std::move(spec));
  }
  return absl::OkStatus();
}

absl::Status ReadData(const Json& line, const Safetensors& tensors,
                      CorpusCase& out) {
  for (const Json& input : line.at("inputs")) {
    ASSIGN_OR_RETURN(CorpusValue value, ReadValue(input, tensors));
    out.inputs.push_back(std::move(value));
  }
  for (const Json& output : line.at("outputs")) {
    ASSIGN_OR_RETURN(CorpusValue value, ReadValue(output, tensors));
    out.outputs.push_back(std::move(value));
  }
  for (const auto& [index, after] : line.at("mutated").items()) {
    ASSIGN_OR_RETURN(CorpusTensor tensor, ReadTensor(after, tensors));
    out.mutated.emplace(std::stoi(index), std::move(tensor));
  }
  return ReadTolerance(line.at("tolerance"), out);
}

absl::Status ReadInto(const Json& line, const Safetensors& tensors,
                      CorpusCase& out) {
  out.name = line.at("name").get<std::string>();
  out.kind = line.value("kind", "");
  out.origin = line.value("origin", "");
  if (line.contains("expect")) out.expect = line.at("expect").dump();
  ASSIGN_OR_RETURN(out.graph, GraphOfCase(line, tensors));
  RETURN_IF_ERROR(ReadSpecs(line.at("inputs"), out));
  out.has_data = line.contains("outputs");
  if (!out.has_data) return absl::OkStatus();
  return ReadData(line, tensors, out);
}

// What the JSON library says, in our words: "[json.exception.out_of_range.403]
// key 'nodes' not found", "[json.exception.type_error.302] type must be string,
// but is number".
std::string FoundAndDue(absl::string_view what) {
  const size_t end = what.find("] ");
  if (end != absl::string_view::npos) what.remove_prefix(end + 2);
  absl::string_view key = what;
  if (absl::ConsumeSuffix(&key, " not found")) {
    return absl::StrCat("missing ", key);
  }
  std::pair<absl::string_view, absl::string_view> types =
      absl::StrSplit(what, absl::MaxSplits(", but is ", 1));
  if (absl::ConsumePrefix(&types.first, "type must be ")) {
    return absl::StrCat("found ", types.second, ", expected ", types.first);
  }
  return absl::StrCat("found \"", what, "\", expected a case of the corpus");
}

CorpusCase ReadCase(const Json& line, size_t number,
                    const Safetensors& tensors) {
  CorpusCase out;
  // The JSON library throws at a missing or mistyped field; this is its edge.
  try {
    out.readable = ReadInto(line, tensors, out);
  } catch (const std::exception& e) {
    const std::string subject =
        out.name.empty() ? absl::StrCat("line ", number) : out.name;
    out.readable = MakeError(
        ErrorReason::kMalformedGraph,
        absl::StrCat("corpus case ", subject, ": ", FoundAndDue(e.what())));
  }
  return out;
}

absl::StatusOr<Safetensors> TensorsBeside(const std::string& jsonl) {
  const absl::StatusOr<std::string> bytes = ReadCorpusBytes(
      absl::StrCat(absl::StripSuffix(jsonl, ".jsonl"), ".safetensors"));
  if (absl::IsNotFound(bytes.status())) return Safetensors();
  if (!bytes.ok()) return bytes.status();
  return Safetensors::Parse(*bytes);
}

}  // namespace

std::string BaseName(const CorpusCase& test_case) {
  return test_case.name.substr(0, test_case.name.find('@'));
}

absl::StatusOr<std::vector<CorpusCase>> ReadCorpusFile(
    const std::string& path) {
  const std::string jsonl(absl::StripSuffix(path, ".zst"));
  ASSIGN_OR_RETURN(const std::string text, ReadCorpusBytes(jsonl));
  ASSIGN_OR_RETURN(const Safetensors tensors, TensorsBeside(jsonl));
  std::vector<CorpusCase> cases;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty()) continue;
    const Json json = Json::parse(line.begin(), line.end(), nullptr,
                                  /*allow_exceptions=*/false);
    if (!json.is_object()) {
      return absl::DataLossError(absl::StrCat(path, ": line ", cases.size() + 1,
                                              " is not a JSON object"));
    }
    cases.push_back(ReadCase(json, cases.size() + 1, tensors));
  }
  return cases;
}

}  // namespace kiln
