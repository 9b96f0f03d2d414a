#include "client/corpus_runner/cuda_dtypes.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Malformed(absl::string_view subject, absl::string_view found) {
  return MakeError(ErrorReason::kMalformedGraph,
                   absl::StrCat(subject, ": found ", found));
}

bool Holds(DType wide, DType narrow) {
  return IsHalf(narrow) && (wide == DType::kFloat32 || wide == DType::kFloat64);
}

CorpusTensor Widened(const CorpusTensor& from, DType dtype) {
  CorpusTensor to;
  to.layout = from.layout;
  to.layout.dtype = dtype;
  const int64_t was = SizeInBytes(from.layout.dtype), is = SizeInBytes(dtype);
  const int64_t count = static_cast<int64_t>(from.storage.size()) / was;
  to.storage.resize(static_cast<size_t>(count * is));
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(dtype,
                 ElementAsDouble(from.layout.dtype, &from.storage[i * was]),
                 &to.storage[i * is]);
  }
  return to;
}

}  // namespace

absl::StatusOr<CudaDTypes> ReadCudaDTypes(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  const nlohmann::json all =
      nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object() || !all.contains("cases") ||
      !all.at("cases").is_object()) {
    return Malformed(path,
                     "missing object \"cases\"; expected a file that "
                     "record_cuda_dtypes wrote");
  }
  CudaDTypes out;
  for (const auto& [name, outputs] : all.at("cases").items()) {
    for (const auto& [number, word] : outputs.items()) {
      int index = 0;
      const std::optional<DType> dtype =
          word.is_string() ? DTypeFromTorchName(word.get<std::string>())
                           : std::nullopt;
      if (!absl::SimpleAtoi(number, &index) || !dtype.has_value()) {
        return Malformed(absl::StrCat(path, ": ", name),
                         absl::StrCat(number, ": ", word.dump(),
                                      ", expected an output and a dtype"));
      }
      out[name][index] = *dtype;
    }
  }
  return out;
}

absl::Status ApplyCudaDTypes(const CudaDTypes& dtypes, CorpusCase& test_case) {
  const auto found = dtypes.find(test_case.name);
  if (found == dtypes.end() || !test_case.has_data) return absl::OkStatus();
  for (const auto& [number, dtype] : found->second) {
    auto* tensor =
        number >= 0 && number < static_cast<int>(test_case.outputs.size())
            ? std::get_if<CorpusTensor>(&test_case.outputs[number])
            : nullptr;
    if (tensor == nullptr || !Holds(dtype, tensor->layout.dtype)) {
      return Malformed(
          absl::StrCat("output ", number, " on CUDA"),
          absl::StrCat(
              TorchName(dtype),
              ", expected a dtype that is wider than the recorded one"));
    }
    *tensor = Widened(*tensor, dtype);
  }
  return absl::OkStatus();
}

}  // namespace kiln
