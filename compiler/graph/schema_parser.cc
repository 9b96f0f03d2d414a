#include "compiler/graph/schema_parser.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct TypeRow {
  absl::string_view word;
  ParamType plain;
  ParamType optional;
};

constexpr TypeRow kTypes[] = {
    {"Tensor", ParamType::kTensor, ParamType::kOptionalTensor},
    {"Tensor[]", ParamType::kTensorList, ParamType::kTensorList},
    {"Tensor?[]", ParamType::kOptionalTensorList,
     ParamType::kOptionalTensorList},
    {"int", ParamType::kInt, ParamType::kOptionalInt},
    {"SymInt", ParamType::kInt, ParamType::kOptionalInt},
    {"int[]", ParamType::kIntList, ParamType::kOptionalIntList},
    {"SymInt[]", ParamType::kIntList, ParamType::kOptionalIntList},
    {"float", ParamType::kFloat, ParamType::kOptionalFloat},
    {"float[]", ParamType::kFloatList, ParamType::kOptionalFloatList},
    {"bool", ParamType::kBool, ParamType::kOptionalBool},
    {"bool[]", ParamType::kBoolList, ParamType::kBoolList},
    {"Scalar", ParamType::kScalar, ParamType::kOptionalScalar},
    {"str", ParamType::kString, ParamType::kOptionalString},
    {"ScalarType", ParamType::kDType, ParamType::kOptionalDType},
    {"MemoryFormat", ParamType::kMemoryFormat, ParamType::kMemoryFormat},
    {"Device", ParamType::kDevice, ParamType::kDevice},
    {"Layout", ParamType::kLayout, ParamType::kLayout},
    {"Generator", ParamType::kGenerator, ParamType::kGenerator},
};

class SchemaParser {
 public:
  explicit SchemaParser(absl::string_view text) : all_(text), text_(text) {}

  absl::StatusOr<Schema> Parse() {
    Schema schema;
    if (!Take("(")) return Unexpected("(");
    bool keyword_only = false;
    while (!Take(")")) {
      if (Take("*")) {
        keyword_only = true;
      } else {
        ASSIGN_OR_RETURN(Param param, ParseParam());
        param.keyword_only = keyword_only;
        schema.params.push_back(std::move(param));
      }
      Take(",");
    }
    if (!Take("->")) return Unexpected("->");
    const bool many = Take("(");
    while (!text_.empty() && !Take(")")) {
      Schema::Result result;
      ASSIGN_OR_RETURN(const Type type, ParseType());
      result.list = type.type == ParamType::kTensorList;
      result.alias_set = type.alias_set;
      schema.results.push_back(result);
      if (many) {
        SkipSpace();
        Word();
        Take(",");
      }
    }
    SkipSpace();
    if (!text_.empty()) return Unexpected("the end");
    return schema;
  }

 private:
  struct Type {
    ParamType type;
    int alias_set = -1;
    bool mutated = false;
    int list_size = 0;
  };

  absl::StatusOr<Type> ParseType() {
    SkipSpace();
    Type out;
    std::string word(Word());
    if (Take("(")) {
      SkipSpace();
      if (text_.empty()) return Unexpected("an alias set");
      out.alias_set = text_[0] - 'a';
      text_.remove_prefix(1);
      out.mutated = Take("!");
      if (Take("->")) Take("*");
      if (!Take(")")) return Unexpected(")");
    }
    if (absl::ConsumePrefix(&text_, "?[]")) word += "?[]";
    if (absl::ConsumePrefix(&text_, "[")) {
      word += "[]";
      const absl::string_view size = Word();
      if (!size.empty() && !absl::SimpleAtoi(size, &out.list_size)) {
        return Unexpected("a size");
      }
      if (!absl::ConsumePrefix(&text_, "]")) return Unexpected("]");
    }
    const bool optional = absl::ConsumePrefix(&text_, "?");
    for (const TypeRow& row : kTypes) {
      if (row.word == word) {
        out.type = optional ? row.optional : row.plain;
        return out;
      }
    }
    return absl::InternalError(
        absl::StrCat("schema ", all_, ": type ", word, " is not known"));
  }

  absl::StatusOr<Param> ParseParam() {
    ASSIGN_OR_RETURN(const Type type, ParseType());
    Param param;
    param.type = type.type;
    param.alias_set = type.alias_set;
    param.mutated = type.mutated;
    param.list_size = type.list_size;
    SkipSpace();
    param.name = std::string(Word());
    if (param.name.empty()) return Unexpected("a name");
    if (Take("=")) {
      param.has_default = true;
      ASSIGN_OR_RETURN(param.default_value, ParseDefault(param));
    }
    return param;
  }

  absl::StatusOr<Argument> ParseDefault(const Param& param) {
    if (Take("[")) {
      Argument::List items;
      while (!Take("]")) {
        ASSIGN_OR_RETURN(Argument item, ParseDefault(param));
        items.push_back(std::move(item));
        Take(",");
      }
      return Argument(std::move(items));
    }
    SkipSpace();
    size_t n = 0;
    while (n < text_.size() && text_[n] != ',' && text_[n] != ')' &&
           text_[n] != ']') {
      ++n;
    }
    const absl::string_view word =
        absl::StripTrailingAsciiWhitespace(text_.substr(0, n));
    text_.remove_prefix(n);
    if (word == "None") return Argument(NoneArgument());
    if (word == "True" || word == "False") return Argument(word == "True");
    if (word == "Mean") return Argument(1);  // Reduction
    if (word == "contiguous_format") return Argument(MemoryFormat::kContiguous);
    if (word == "long") return Argument(DType::kInt64);
    if (word.size() >= 2 && (word[0] == '\'' || word[0] == '"')) {
      return Argument(std::string(word.substr(1, word.size() - 2)));
    }
    int64_t integer;
    if (absl::SimpleAtoi(word, &integer)) {
      const bool as_float = param.type == ParamType::kFloat ||
                            param.type == ParamType::kOptionalFloat;
      const Argument one =
          as_float ? Argument(static_cast<double>(integer)) : Argument(integer);
      if (param.list_size == 0) return one;
      return Argument(Argument::List(param.list_size, one));
    }
    double number;
    if (absl::SimpleAtod(word, &number)) return Argument(number);
    return absl::InternalError(
        absl::StrCat("schema ", all_, ": default ", word, " is not known"));
  }

  absl::string_view Word() {
    size_t n = 0;
    while (n < text_.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text_[n])) ||
            text_[n] == '_')) {
      ++n;
    }
    const absl::string_view word = text_.substr(0, n);
    text_.remove_prefix(n);
    return word;
  }
  void SkipSpace() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }
  bool Take(absl::string_view token) {
    SkipSpace();
    return absl::ConsumePrefix(&text_, token);
  }
  absl::Status Unexpected(absl::string_view due) const {
    return absl::InternalError(absl::StrCat("schema ", all_, ": found '",
                                            text_.substr(0, 20), "', expected ",
                                            due));
  }

  absl::string_view all_;
  absl::string_view text_;
};

}  // namespace

absl::StatusOr<Schema> ParseSchema(absl::string_view text) {
  return SchemaParser(text).Parse();
}

}  // namespace kiln
