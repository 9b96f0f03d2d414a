#include "tests/support/random_graph.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

// A size as written, and its value at the hint.
struct Size {
  std::string text;
  int value;
};

struct Value {
  std::string name;
  std::string dtype;
  std::vector<Size> sizes;
  double bound = 2;  // no element is further from 0
  bool read = false;
};

// A function that is steeper than a line hands on what roundings have done to
// its argument; beyond this the flat one is taken.
constexpr double kSteep = 2.5;

class Writer {
 public:
  Writer(uint64_t seed, int nodes) : random_(seed) {
    rows_ = Chance(2) ? Size{"N", 6} : Size{"5", 5};
    middle_ = Chance(3) ? Size{"1", 1} : Size{"4", 4};
    columns_ = Size{Chance(3) ? "3" : "8", 0};
    columns_.value = columns_.text == "3" ? 3 : 8;
    AddInput("f32", {rows_, middle_, columns_});
    AddInput("f32", {rows_, middle_, columns_});
    AddInput("f32", {columns_});
    halves_ = Chance(3);
    AddInput(halves_ ? "bf16" : "f32", {rows_, middle_, columns_});
    // Half a unit of the last place of a half is 2^-9 of its size, and sums of
    // large ones come out small.
    most_ = halves_ ? 4 : 64;
    Write("mask", "bool", values_[0].sizes, "gt.Tensor(%x0, %x1)", 1);
    for (int n = 0; n < nodes; ++n) Node();
  }

  std::string Text() const {
    std::vector<std::string> inputs, outputs;
    for (const Value& value : values_) {
      if (value.name[0] == 'x') inputs.push_back(Declared(value));
      if (value.name[0] != 'x' && !value.read) {
        outputs.push_back("%" + value.name);
      }
    }
    inputs.push_back("%index: i64[4]");
    // A symbol that no input has is no symbol of a graph.
    const char* symbols = rows_.text == "N" ? "N in [2, 64] = 6" : "";
    return absl::StrCat("graph @random(", symbols, ")(",
                        absl::StrJoin(inputs, ", "), ") -> (",
                        absl::StrJoin(outputs, ", "), ") {\n", body_, "}\n");
  }

 private:
  // One in `n`.
  bool Chance(int n) { return random_() % static_cast<uint64_t>(n) == 0; }
  int Below(size_t n) { return static_cast<int>(random_() % n); }

  static std::string Dims(const std::vector<Size>& sizes) {
    return absl::StrCat("[",
                        absl::StrJoin(sizes, ", ",
                                      [](std::string* out, const Size& size) {
                                        absl::StrAppend(out, size.text);
                                      }),
                        "]");
  }
  static std::string Declared(const Value& value) {
    return absl::StrCat("%", value.name, ": ", value.dtype, Dims(value.sizes));
  }

  void AddInput(const std::string& dtype, std::vector<Size> sizes) {
    values_.push_back(
        {absl::StrCat("x", values_.size()), dtype, std::move(sizes)});
  }
  void Write(const std::string& name, const std::string& dtype,
             std::vector<Size> sizes, const std::string& call, double bound) {
    absl::StrAppend(&body_, "  %", name, " = ", call, "\n");
    values_.push_back({name, dtype, std::move(sizes), bound});
  }
  void Write(const std::string& dtype, std::vector<Size> sizes,
             const std::string& call, double bound) {
    Write(absl::StrCat("v", next_++), dtype, std::move(sizes), call, bound);
  }

  bool IsOperand(const Value& value) const {
    return value.dtype != "bool" && value.bound <= most_;
  }
  double Bound(size_t at) const { return values_[at].bound; }
  // `name`, or what may follow a value that `bound` bounds in its place.
  static std::string Flat(const std::string& name, double bound) {
    const bool steep = name == "sin" || name == "cos";
    return steep && bound > kSteep ? "tanh" : name;
  }

  // A float value of at least `rank` dimensions; young ones more often.
  size_t Pick(size_t rank) {
    for (int tries = 0; tries < 20; ++tries) {
      const size_t back =
          static_cast<size_t>(Below(Chance(3) ? values_.size() : 4));
      const size_t at = values_.size() - 1 - std::min(back, values_.size() - 1);
      if (IsOperand(values_[at]) && values_[at].sizes.size() >= rank) {
        return at;
      }
    }
    return 0;
  }
  std::string Read(size_t at) {
    values_[at].read = true;
    return "%" + values_[at].name;
  }
  // Another of the same sizes, or one that broadcasts to them.
  size_t Partner(size_t of) {
    const std::vector<Size>& due = values_[of].sizes;
    std::vector<size_t> fit;
    for (size_t v = 0; v < values_.size(); ++v) {
      const std::vector<Size>& sizes = values_[v].sizes;
      bool fits = IsOperand(values_[v]) && sizes.size() <= due.size();
      for (size_t d = 0; fits && d < sizes.size(); ++d) {
        const Size& at = due[due.size() - sizes.size() + d];
        fits = sizes[d].text == at.text || sizes[d].text == "1";
      }
      if (fits) fit.push_back(v);
    }
    return fit[static_cast<size_t>(Below(fit.size()))];
  }
  std::string Wider(size_t a, size_t b) const {
    return values_[a].dtype == "f32" || values_[b].dtype == "f32" ? "f32"
                                                                  : "bf16";
  }

  void Node() {
    switch (Below(8)) {
      case 0:
        return Unary();
      case 1:
      case 2:
        return Binary();
      case 3:
        return Reduction();
      case 4:
      case 5:
        return View();
      case 6:
        return Movement();
      case 7:
        return Other();
    }
  }

  void Unary() {
    constexpr const char* kNames[] = {"tanh", "sigmoid", "neg", "abs",
                                      "sin",  "relu",    "cos"};
    const size_t a = Pick(0);
    const std::string name = Flat(kNames[Below(std::size(kNames))], Bound(a));
    const bool keeps = name == "neg" || name == "abs" || name == "relu";
    Write(values_[a].dtype, values_[a].sizes,
          absl::StrCat(name, "(", Read(a), ")"), keeps ? Bound(a) : 1);
  }

  void Binary() {
    constexpr const char* kNames[] = {"add.Tensor", "sub.Tensor", "maximum",
                                      "minimum"};
    const size_t a = Pick(0), b = Partner(a);
    const std::string name = kNames[Below(std::size(kNames))];
    const std::string call =
        absl::StrCat(name, "(", Read(a), ", ", Read(b), ")");
    Write(Wider(a, b), values_[a].sizes, call, Bound(a) + Bound(b));
    const size_t sum = values_.size() - 1;
    Write(values_[sum].dtype, values_[sum].sizes,
          absl::StrCat(Flat("sin", Bound(sum)), "(", Read(sum), ")"), 1);
  }

  void Reduction() {
    constexpr const char* kNames[] = {"sum.dim_IntList", "amax", "amin",
                                      "mean.dim"};
    const size_t a = Pick(1);
    const bool keep = Chance(2);
    const int dim = Below(values_[a].sizes.size());
    std::vector<Size> sizes = values_[a].sizes;
    const int terms = sizes[static_cast<size_t>(dim)].value;
    if (keep) {
      sizes[static_cast<size_t>(dim)] = {"1", 1};
    } else {
      sizes.erase(sizes.begin() + dim);
    }
    std::string name = kNames[Below(std::size(kNames))];
    // Terms of a half that cancel leave their roundings.
    if (halves_ && name == "sum.dim_IntList") name = "mean.dim";
    Write(values_[a].dtype, sizes,
          absl::StrCat(name, "(", Read(a), ", [", dim, "]",
                       keep ? ", true" : "", ")"),
          name == "sum.dim_IntList" ? Bound(a) * terms : Bound(a));
  }

  void View() {
    const size_t a = Pick(1);
    std::vector<Size> sizes = values_[a].sizes;
    const int dim = Below(sizes.size());
    const std::string dtype = values_[a].dtype;
    Size& size = sizes[static_cast<size_t>(dim)];
    switch (Below(4)) {
      case 0: {
        std::vector<int> order(sizes.size());
        for (size_t d = 0; d < order.size(); ++d)
          order[d] = static_cast<int>(d);
        std::rotate(order.begin(), order.begin() + dim, order.end());
        std::rotate(sizes.begin(), sizes.begin() + dim, sizes.end());
        return Write(dtype, sizes,
                     absl::StrCat("permute(", Read(a), ", [",
                                  absl::StrJoin(order, ", "), "])"),
                     Bound(a));
      }
      case 1:
        sizes.insert(sizes.begin() + dim, {"1", 1});
        if (sizes.size() > 4) return Unary();
        return Write(dtype, sizes,
                     absl::StrCat("unsqueeze(", Read(a), ", ", dim, ")"),
                     Bound(a));
      case 2:
        if (size.text == "N" || size.value < 3) return Unary();
        size = {absl::StrCat(size.value - 1), size.value - 1};
        return Write(dtype, sizes,
                     absl::StrCat("slice.Tensor(", Read(a), ", ", dim, ", 1, ",
                                  size.value + 1, ")"),
                     Bound(a));
      case 3:
        sizes.erase(sizes.begin() + dim);
        return Write(dtype, sizes,
                     absl::StrCat("select.int(", Read(a), ", ", dim, ", 0)"),
                     Bound(a));
    }
  }

  void Movement() {
    const size_t a = Pick(1);
    std::vector<Size> sizes = values_[a].sizes;
    const int dim = Below(sizes.size());
    const std::string dtype = values_[a].dtype;
    Size& size = sizes[static_cast<size_t>(dim)];
    switch (Below(6)) {
      case 0:
        return Write(dtype, sizes,
                     absl::StrCat("flip(", Read(a), ", [", dim, "])"),
                     Bound(a));
      case 1:
        if (size.text == "N" || size.value > 16) return Unary();
        size = {absl::StrCat(2 * size.value), 2 * size.value};
        return Write(
            dtype, sizes,
            absl::StrCat("cat([", Read(a), ", ", Read(a), "], ", dim, ")"),
            Bound(a));
      case 2:
        if (size.text != "N" && size.value < 2) return Unary();
        size = {"4", 4};
        return Write(
            dtype, sizes,
            absl::StrCat("index_select(", Read(a), ", ", dim, ", %index)"),
            Bound(a));
      case 3:
        if (sizes.back().text == "N" || sizes.back().value > 16) return Unary();
        sizes.back().value += 3;
        sizes.back().text = absl::StrCat(sizes.back().value);
        return Write(
            dtype, sizes,
            absl::StrCat("constant_pad_nd(", Read(a), ", [1, 2], 0.5)"),
            Bound(a));
      case 4:
        if (size.text != "N" && size.value < 2) return Unary();
        return IndexAdd(a, dim);
      case 5:
        if (sizes.size() < 2) return Unary();
        return SelectScatter(a, dim);
    }
  }

  // Rows of a value added to rows of its own, some of them twice.
  void IndexAdd(size_t a, int dim) {
    std::vector<Size> sizes = values_[a].sizes;
    const std::string dtype = values_[a].dtype;
    sizes[static_cast<size_t>(dim)] = {"4", 4};
    Write(dtype, sizes,
          absl::StrCat("index_select(", Read(a), ", ", dim, ", %index)"),
          Bound(a));
    const size_t rows = values_.size() - 1;
    const std::string call = absl::StrCat("index_add(", Read(a), ", ", dim,
                                          ", %index, ", Read(rows), ")");
    Write(dtype, values_[a].sizes, call, 5 * Bound(a));
  }

  // One row in another's place.
  void SelectScatter(size_t a, int dim) {
    std::vector<Size> sizes = values_[a].sizes;
    const std::string dtype = values_[a].dtype;
    sizes.erase(sizes.begin() + dim);
    Write(dtype, sizes, absl::StrCat("select.int(", Read(a), ", ", dim, ", 0)"),
          Bound(a));
    const size_t row = values_.size() - 1;
    const std::string call = absl::StrCat("select_scatter(", Read(a), ", ",
                                          Read(row), ", ", dim, ", -1)");
    Write(dtype, values_[a].sizes, call, Bound(a));
  }

  void Other() {
    const size_t a = Pick(1);
    const int dim = Below(values_[a].sizes.size());
    const std::vector<Size> sizes = values_[a].sizes;
    switch (Below(4)) {
      case 0: {
        if (!halves_) return Unary();
        const std::string to = values_[a].dtype == "f32" ? "bf16" : "f32";
        return Write(
            to, sizes,
            absl::StrCat("prims.convert_element_type(", Read(a), ", ", to, ")"),
            Bound(a));
      }
      case 1:
        if (Bound(a) > kSteep) return Unary();
        return Write(values_[a].dtype, sizes,
                     absl::StrCat("_softmax(", Read(a), ", ", dim, ", false)"),
                     1);
      case 2:
        if (halves_) return Unary();
        return Write("f32", sizes,
                     absl::StrCat("cumsum(", Read(a), ", ", dim, ")"),
                     Bound(a) * sizes[static_cast<size_t>(dim)].value);
      case 3: {
        const size_t b = Partner(a);
        bool masked = values_[b].dtype == values_[a].dtype &&
                      sizes.size() == 3 && sizes[0].text == rows_.text &&
                      sizes[1].text == middle_.text &&
                      sizes[2].text == columns_.text;
        if (!masked) return Unary();
        return Write(
            values_[a].dtype, sizes,
            absl::StrCat("where.self(%mask, ", Read(a), ", ", Read(b), ")"),
            std::max(Bound(a), Bound(b)));
      }
    }
  }

  std::mt19937_64 random_;
  Size rows_, middle_, columns_;
  bool halves_ = false;
  double most_ = 0;  // operands are bounded by it
  std::vector<Value> values_;
  std::string body_;
  int next_ = 0;
};

}  // namespace

std::string RandomGraph(uint64_t seed, int nodes) {
  return Writer(seed, nodes).Text();
}

}  // namespace kiln
