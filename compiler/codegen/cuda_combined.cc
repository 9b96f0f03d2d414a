#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/c_writer.h"
#include "compiler/codegen/combined_dialects.h"
#include "compiler/codegen/cuda_codegen.h"
#include "compiler/codegen/kernel_body.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// One part of the kernel, as its entry sees it.
struct Part {
  std::vector<std::string> arguments;
  std::string before;  // blocks of all parts before it
  std::string end;     // and with its own
};

class CombinedWriter {
 public:
  CombinedWriter(const std::vector<CombinedBody>& bodies,
                 const std::vector<Buffer>& buffers, const Target& target,
                 KernelSource& source)
      : bodies_(bodies), buffers_(buffers), target_(target), source_(source) {}

  absl::Status Run() {
    NameArguments();
    std::string functions;
    for (size_t b = 0; b < bodies_.size(); ++b) {
      const CombinedBody& body = bodies_[b];
      KernelSource function;
      RETURN_IF_ERROR(WriteCudaFunction(body.kernel, buffers_, body.shapes,
                                        target_, body.facts, FunctionName(b),
                                        function));
      absl::StrAppend(&functions, function.text);
      if (b > 0 && function.block[0] != source_.block[0])
        return absl::InternalError("parts with other threads a block");
      source_.block[0] = function.block[0];
      AddParts(body, function.grid[0]);
    }
    for (const BufferId id : order_)
      source_.params.push_back({KernelParam::Kind::kBuffer, id, 0});
    for (const SymExpr& e : scalars_)
      source_.params.push_back({KernelParam::Kind::kScalar, 0, e});
    if (source_.params.size() > kMaxKernelArguments)
      return absl::InternalError(
          absl::StrCat(source_.params.size(), " arguments of one kernel"));
    source_.grid = {grid_, 1, 1};
    WriteEntry();
    source_.text = functions + out_.Take();
    return absl::OkStatus();
  }

 private:
  static std::string FunctionName(size_t body) {
    return absl::StrCat(kSymbolPlaceholder, "_body", body);
  }

  void NameArguments() {
    for (const CombinedBody& body : bodies_) {
      for (const BodyCall& call : body.calls) {
        size_t next = 0;
        for (const KernelParam& param : body.facts.params) {
          if (param.kind != KernelParam::Kind::kBuffer) continue;
          const BufferId id = call.buffers[next++];
          if (names_.emplace(id, absl::StrCat("p", order_.size())).second)
            order_.push_back(id);
          written_[id] |= body.written[param.buffer];
        }
      }
    }
  }

  // A number, or the argument that holds it.
  std::string Scalar(const SymExpr& e) {
    if (e.is_constant()) return absl::StrCat(e.constant());
    for (size_t i = 0; i < scalars_.size(); ++i)
      if (scalars_[i] == e) return absl::StrCat("n", i);
    scalars_.push_back(e);
    return absl::StrCat("n", scalars_.size() - 1);
  }

  void AddParts(const CombinedBody& body, const SymExpr& blocks) {
    for (const BodyCall& call : body.calls) {
      Part part;
      for (const BufferId id : call.buffers)
        part.arguments.push_back(names_[id]);
      for (const SymExpr& e : call.scalars) part.arguments.push_back(Scalar(e));
      const SymExpr own = blocks.Substitute([&](Var var) {
        return var == Var{Var::Kind::kSymbol, body.size} ? call.first_extent
                                                         : SymExpr::Of(var);
      });
      const bool constant = grid_.is_constant() && own.is_constant();
      part.before = parts_.empty() ? "0u" : parts_.back().end;
      grid_ = grid_ + own;
      if (constant) {
        part.end = absl::StrCat(grid_.constant(), "u");
      } else {
        part.end = absl::StrCat("e", parts_.size());
        ends_.push_back(absl::StrCat("const unsigned ", part.end, " = ",
                                     part.before, " + (unsigned)", Scalar(own),
                                     ";"));
      }
      parts_.push_back(std::move(part));
    }
  }

  std::string TypeOf(BufferId id) const {
    const auto written = written_.find(id);
    return absl::StrCat(written->second ? "" : "const ",
                        CTypeName(buffers_[id].dtype), "*");
  }

  void WriteEntry() {
    std::string params;
    for (const BufferId id : order_)
      absl::StrAppend(&params, params.empty() ? "" : ", ", TypeOf(id), " ",
                      names_[id]);
    for (size_t i = 0; i < scalars_.size(); ++i)
      absl::StrAppend(&params, params.empty() ? "" : ", ", "long long n", i);
    out_.Open("extern \"C\" __global__ void __launch_bounds__(",
              source_.block[0], ") ", kSymbolPlaceholder, "(", params, ")");
    if (source_.waits_for_work_before) out_.Line("k_wait_for_work_before();");
    for (const std::string& line : ends_) out_.Line(line);
    size_t first = 0;
    for (size_t b = 0; b < bodies_.size(); ++b) {
      const size_t last = first + bodies_[b].calls.size();
      const bool end = b + 1 == bodies_.size();
      if (!end) out_.Open("if (blockIdx.x < ", parts_[last - 1].end, ")");
      WriteCalls(b, first, last);
      if (!end) {
        out_.Line("return;");
        out_.Close();
      }
      first = last;
    }
    out_.Close();
  }

  // The call of a body for the block's part, one of [first, last).
  void WriteCalls(size_t b, size_t first, size_t last) {
    const std::vector<KernelParam>& params = bodies_[b].facts.params;
    std::string arguments;
    for (size_t i = 0; i < params.size(); ++i) {
      const bool buffer = params[i].kind == KernelParam::Kind::kBuffer;
      const std::string name = absl::StrCat("b", b, "_", i);
      out_.Line(buffer
                    ? absl::StrCat(
                          bodies_[b].written[params[i].buffer] ? "" : "const ",
                          CTypeName(buffers_[params[i].buffer].dtype), "*")
                    : std::string("long long"),
                " ", name, ";");
      absl::StrAppend(&arguments, name, ", ");
    }
    out_.Line("unsigned first", b, ";");
    Choose(b, first, last);
    out_.Line(FunctionName(b), "(", arguments, "blockIdx.x - first", b, ");");
  }

  void Choose(size_t b, size_t first, size_t last) {
    if (last - first == 1) {
      const Part& part = parts_[first];
      for (size_t i = 0; i < part.arguments.size(); ++i)
        out_.Line("b", b, "_", i, " = ", part.arguments[i], ";");
      out_.Line("first", b, " = ", part.before, ";");
      return;
    }
    const size_t middle = first + (last - first) / 2;
    out_.Open("if (blockIdx.x < ", parts_[middle - 1].end, ")");
    Choose(b, first, middle);
    out_.Else();
    Choose(b, middle, last);
    out_.Close();
  }

  const std::vector<CombinedBody>& bodies_;
  const std::vector<Buffer>& buffers_;
  const Target& target_;
  KernelSource& source_;
  CWriter out_;
  std::vector<BufferId> order_;
  absl::flat_hash_map<BufferId, std::string> names_;
  absl::flat_hash_map<BufferId, bool> written_;
  std::vector<SymExpr> scalars_;  // those that are no numbers, each once
  std::vector<std::string> ends_;
  std::vector<Part> parts_;  // body by body
  SymExpr grid_ = 0;
};

}  // namespace

absl::Status WriteCudaCombined(const std::vector<CombinedBody>& bodies,
                               const std::vector<Buffer>& buffers,
                               const Target& target, KernelSource& source) {
  return CombinedWriter(bodies, buffers, target, source).Run();
}

}  // namespace kiln
