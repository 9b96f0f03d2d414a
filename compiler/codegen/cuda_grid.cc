#include "compiler/codegen/cuda_grid.h"

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// The vector axis from the number of its group.
void VectorAxis(CudaBody& body, const std::string& group,
                const std::string& whole) {
  const Vectors& vectors = body.vectors;
  const char* type = body.index_type();
  const std::string name = CudaBody::AxisName(vectors.axis);
  std::string shift;
  if (!IsMultiple(vectors.rest, vectors.width)) {
    shift = absl::StrCat(" - (", type, ")((unsigned)", body.Index(vectors.rest),
                         " & ", vectors.width - 1, "u)");
  }
  body.out.Line("const ", type, " ", name, " = (", type, ")(", group, ") * ",
                vectors.width, shift, ";");
  if (!vectors.cut) return;
  const std::string extent = body.Index(body.facts.extents[vectors.axis]);
  const std::string known = whole.empty() ? "" : absl::StrCat(whole, " || ");
  if (shift.empty()) {
    body.out.Line("const int lo = 0;");
  } else {
    body.out.Line("const int lo = ", known, name, " >= 0 ? 0 : (int)-", name,
                  ";");
  }
  body.out.Line("const int hi = ", known, extent, " - ", name,
                " >= ", vectors.width, " ? ", vectors.width, " : (int)(",
                extent, " - ", name, ");");
}

}  // namespace

void OpenLoop(CudaBody& body, const std::string& name, const LoopText& loop) {
  body.out.Open("for (", loop.type, " ", name, " = ", loop.first, "; ", name,
                " < ", loop.end, "; ", name, " += ", loop.step, ")");
}

LoopText GridLoop(const CudaBody& body, const std::string& first,
                  const std::string& limit, int64_t each) {
  const std::string type = absl::StrCat("unsigned ", body.index_type());
  return {type, first, absl::StrCat("(", type, ")", limit),
          absl::StrCat("(", type, ")gridDim.x",
                       each == 1 ? "" : absl::StrCat(" * ", each))};
}

void OpenTurns(CudaBody& body, const std::string& name, const LoopText& loop,
               bool some_idle) {
  if (!body.one_turn) return OpenLoop(body, name, loop);
  body.out.Line("const ", loop.type, " ", name, " = ", loop.first, ";");
  if (some_idle) {
    body.out.Open("if (", name, " < ", loop.end, ")");
  } else {
    body.out.Open();
  }
}

void OpenGridLoop(CudaBody& body, const std::string& name,
                  const std::string& first, const SymExpr& limit, int64_t each,
                  bool threads) {
  OpenTurns(body, name, GridLoop(body, first, body.Index(limit), each),
            threads && !IsMultiple(limit, each));
}

SymExpr PointsOf(const CudaBody& body, uint32_t first, uint32_t last) {
  SymExpr points = 1;
  for (uint32_t axis = first; axis < last; ++axis)
    points = points * body.Steps(axis);
  return points;
}

void SplitPoint(CudaBody& body, const std::string& number, uint32_t first,
                uint32_t last, const std::string& whole) {
  if (first == last) return;
  const char* type = body.index_type();
  std::string group;  // of the vector axis: last, for it may need the others
  const auto declare = [&](uint32_t axis, const std::string& value) {
    if (axis == body.vectors.axis && body.vectors.width > 1) {
      group = value;
    } else {
      body.out.Line("const ", type, " ", CudaBody::AxisName(axis), " = (", type,
                    ")", value, ";");
    }
  };
  if (last - first == 1) {
    declare(first, absl::StrCat("(", number, ")"));
  } else {
    const std::string unsigned_type = absl::StrCat("unsigned ", type);
    std::string q = body.Fresh("q");
    body.out.Line("const ", unsigned_type, " ", q, " = (", unsigned_type, ")",
                  number, ";");
    for (uint32_t axis = last; axis-- > first;) {
      if (axis == first) {
        declare(axis, q);
        break;
      }
      const std::string extent =
          absl::StrCat("(", unsigned_type, ")", body.Index(body.Steps(axis)));
      declare(axis, absl::StrCat("(", q, " % ", extent, ")"));
      const std::string next = body.Fresh("q");
      body.out.Line("const ", unsigned_type, " ", next, " = ", q, " / ", extent,
                    ";");
      q = next;
    }
  }
  if (!group.empty()) VectorAxis(body, group, whole);
}

}  // namespace kiln
