#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/c_writer.h"
#include "compiler/codegen/combined_dialects.h"
#include "compiler/codegen/cpu_codegen.h"
#include "compiler/codegen/kernel_body.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// A body with where its calls stand among all.
struct Row {
  CpuFunction function;
  std::string name;
  size_t calls = 0;
  size_t first_part = 0;
  size_t first_buffer = 0, buffers = 0;  // of the first call, of each
  size_t first_scalar = 0, scalars = 0;
};

void AddParams(const CombinedBody& body, KernelSource& source) {
  for (const BodyCall& call : body.calls) {
    for (const BufferId id : call.buffers)
      source.params.push_back({KernelParam::Kind::kBuffer, id, 0});
    for (const SymExpr& e : call.scalars)
      source.params.push_back({KernelParam::Kind::kScalar, 0, e});
  }
}

// "c.scalars + 3 + 2 * k".
std::string At(absl::string_view of, size_t first, size_t each) {
  return absl::StrCat(of, " + ", first, " + ", each, " * k");
}

// Shares the items [begin, end) of all parts out to the calls they belong to.
void WriteDealer(const std::vector<Row>& rows, CWriter& out) {
  const std::string context = absl::StrCat(kSymbolPlaceholder, "_context");
  out.Open("struct ", context);
  out.Line("void* const* buffers;");
  out.Line("const long long* scalars;");
  out.Line("const long long* ends;");
  out.Line("KilnBadData* bad_data;");
  out.Close(";");
  out.Open("static void ", kSymbolPlaceholder,
           "_part(void* context, long long begin, long long end)");
  out.Line("const ", context, "& c = *(const ", context, "*)context;");
  out.Line("long long first = 0;");
  for (const Row& row : rows) {
    out.Open("for (long long k = 0; k < ", row.calls, " && first < end; ++k)");
    out.Line("const long long last = c.ends[", row.first_part, " + k];");
    out.Open("if (begin < last)");
    out.Line("const KilnArguments a = {",
             At("c.buffers", row.first_buffer, row.buffers), ", ",
             At("c.scalars", row.first_scalar, row.scalars), ", c.bad_data};");
    out.Line(row.name,
             "(a, begin < first ? 0 : begin - first, k_least(end, last) - "
             "first);");
    out.Close();
    out.Line("first = last;");
    out.Close();
  }
  out.Close();
}

void WriteEntry(const std::vector<Row>& rows, CWriter& out) {
  out.Open("extern \"C\" __attribute__((visibility(\"default\"))) void ",
           kSymbolPlaceholder,
           "(void* const* buffers, const long long* scalars, "
           "const KilnCpuRuntime* runtime)");
  out.Line("long long ends[", rows.back().first_part + rows.back().calls, "];");
  out.Line("long long items = 0, points = 0;");
  for (const Row& row : rows) {
    out.Open("for (long long k = 0; k < ", row.calls, "; ++k)");
    for (size_t s = 0; s < row.scalars; ++s)
      out.Line("const long long s", s, " = scalars[", row.first_scalar + s,
               " + ", row.scalars, " * k]; (void)s", s, ";");
    out.Line("items += ", row.function.items, ";");
    out.Line("points += ", row.function.points, ";");
    out.Line("ends[", row.first_part, " + k] = items;");
    out.Close();
  }
  out.Line(kSymbolPlaceholder,
           "_context c = {buffers, scalars, ends, runtime == 0 ? 0 : "
           "runtime->bad_data};");
  out.Line("k_share(runtime, items, points, ", rows[0].function.grain, ", ",
           kSymbolPlaceholder, "_part, &c);");
  out.Close();
}

}  // namespace

absl::Status WriteCpuCombined(const std::vector<CombinedBody>& bodies,
                              const std::vector<Buffer>& buffers,
                              KernelSource& source) {
  std::vector<Row> rows;
  size_t parts = 0, buffer = 0, scalar = 0;
  for (const CombinedBody& body : bodies) {
    Row row;
    row.name = absl::StrCat(kSymbolPlaceholder, "_body", rows.size());
    ASSIGN_OR_RETURN(row.function,
                     WriteCpuFunction(body.kernel, buffers, body.shapes,
                                      body.facts, row.name));
    row.calls = body.calls.size();
    row.first_part = parts;
    row.first_buffer = buffer;
    row.first_scalar = scalar;
    row.buffers = body.calls[0].buffers.size();
    row.scalars = body.calls[0].scalars.size();
    parts += row.calls;
    buffer += row.calls * row.buffers;
    scalar += row.calls * row.scalars;
    AddParams(body, source);
    absl::StrAppend(&source.text, row.function.text);
    rows.push_back(std::move(row));
  }
  CWriter out;
  WriteDealer(rows, out);
  WriteEntry(rows, out);
  absl::StrAppend(&source.text, out.Take());
  return absl::OkStatus();
}

}  // namespace kiln
