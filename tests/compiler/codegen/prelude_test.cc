// The parts of the preludes have names of their own: a kernel that names one gets that
// one.

#include "compiler/codegen/prelude.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::map<std::string, int> NamesOf(const std::vector<PreludePart>& parts) {
  std::map<std::string, int> names;
  for (const PreludePart& part : parts)
    for (const absl::string_view type : absl::StrSplit(part.types, ' '))
      ++names[absl::StrReplaceAll(part.stem, {{"$T", type}})];
  return names;
}

TEST(Prelude, EachNameIsOfOnePart) {
  const std::map<std::string, int> names = NamesOf(CudaPrelude());
  EXPECT_GT(names.size(), 100u);
  for (const auto& [name, count] : names) EXPECT_EQ(count, 1) << name;
}

}  // namespace
}  // namespace kiln
