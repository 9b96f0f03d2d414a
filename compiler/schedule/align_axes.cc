#include "compiler/schedule/align_axes.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "compiler/loop/loop_transforms.h"

namespace kiln {

namespace {

using Atom = uint32_t;
using AtomList = absl::InlinedVector<Atom, 6>;
using AxisAtoms = absl::InlinedVector<Atom, 2>;  // the pieces of an axis
enum Side { kFirst = 0, kSecond = 1 };

// The stride of one atom in an address.
struct Weight {
  SymExpr value;
  int64_t hint;
  Atom atom;
};

// The axes of both nests, cut into pieces (atoms). An atom that both nests have is an
// axis of the shared space.
class Atoms {
 public:
  Atoms(const LoopNest& first, const LoopNest& second, const ShapeEnv& shapes)
      : shapes_(shapes) {
    extents_.reserve(2 * (first.axes.size() + second.axes.size()));
    for (const auto& [side, nest] :
         {std::pair(kFirst, &first), std::pair(kSecond, &second)}) {
      axes_[side].reserve(nest->axes.size());
      for (const Axis& axis : nest->axes) {
        axes_[side].push_back({static_cast<Atom>(extents_.size())});
        extents_.push_back(axis.extent);
      }
    }
  }

  // Splits and identifies atoms until both addresses are equal. If that is impossible,
  // changes nothing.
  bool UnifyAddresses(const LinearForm& first, const LinearForm& second);
  // Splits and identifies atoms until the two lists are equal. Returns whether that
  // worked.
  bool UnifyInOrder(AtomList first, AtomList second);

  const AxisAtoms& atoms(Side side, size_t axis) const {
    return axes_[side][axis];
  }
  const SymExpr& extent(Atom atom) const { return extents_[atom]; }
  bool Has(Side side, Atom atom) const;
  // Whether no nest has an atom twice.
  bool Distinct() const;
  // Axis `axis` of the nest as an expression of new axes; `position` is the new axis of
  // each atom.
  SymExpr ValueOf(Side side, size_t axis,
                  const std::vector<uint32_t>& position) const;
  size_t size() const { return extents_.size(); }

 private:
  std::vector<Weight> WeightsOf(Side side, const LinearForm& address) const;
  bool Unify(Atom a, Atom b);
  // `inner` is taken by value: it is usually an element of extents_, which grows here.
  bool Split(Atom atom, SymExpr inner);
  void Rename(Atom from, absl::Span<const Atom> to);

  const ShapeEnv& shapes_;
  std::vector<SymExpr> extents_;
  std::vector<AxisAtoms> axes_[2];  // outermost first
};

void Atoms::Rename(Atom from, absl::Span<const Atom> to) {
  for (auto& side : axes_) {
    for (AxisAtoms& axis : side) {
      const auto at = std::find(axis.begin(), axis.end(), from);
      if (at == axis.end()) continue;
      const auto gap = axis.erase(at);
      axis.insert(gap, to.begin(), to.end());
    }
  }
}

bool Atoms::Split(Atom atom, SymExpr inner) {
  const auto outer = ExactQuotient(extents_[atom], inner);
  if (!outer.has_value()) return false;
  const Atom high = static_cast<Atom>(extents_.size());
  extents_.push_back(*outer);
  extents_.push_back(std::move(inner));
  const Atom parts[] = {high, high + 1};
  Rename(atom, parts);
  return true;
}

bool Atoms::Unify(Atom a, Atom b) {
  if (extents_[a] == extents_[b]) {
    Rename(b, {&a, 1});
    return true;
  }
  const bool a_larger = shapes_.Hint(extents_[a]) > shapes_.Hint(extents_[b]);
  return a_larger ? Split(a, extents_[b]) : Split(b, extents_[a]);
}

std::vector<Weight> Atoms::WeightsOf(Side side,
                                     const LinearForm& address) const {
  // In order of their hints; equal ones in the order of the axes.
  std::vector<Weight> weights;
  weights.reserve(extents_.size());
  const auto add = [&](Weight weight) {
    const auto at = std::upper_bound(
        weights.begin(), weights.end(), weight,
        [](const Weight& a, const Weight& b) { return a.hint < b.hint; });
    weights.insert(at, std::move(weight));
  };
  for (const auto& [axis, coefficient] : address.terms) {
    SymExpr weight = coefficient;
    const AxisAtoms& atoms = axes_[side][axis];
    for (size_t k = atoms.size(); k-- > 0;) {
      add({weight, shapes_.Hint(weight), atoms[k]});
      if (k > 0) weight *= extents_[atoms[k]];
    }
  }
  return weights;
}

bool Atoms::UnifyAddresses(const LinearForm& first, const LinearForm& second) {
  std::vector<SymExpr> saved_extents;
  std::vector<AxisAtoms> saved_axes[2];
  bool changed = false;
  bool agree = false;
  for (int round = 0; round < 24; ++round) {
    const std::vector<Weight> a = WeightsOf(kFirst, first);
    const std::vector<Weight> b = WeightsOf(kSecond, second);
    size_t k = 0;
    while (k < a.size() && k < b.size() && a[k].atom == b[k].atom &&
           a[k].value == b[k].value) {
      ++k;
    }
    if (k == a.size() || k == b.size()) {
      agree = a.size() == b.size();
      break;
    }
    if (!(a[k].value == b[k].value)) break;
    if (!changed) {
      saved_extents = extents_;
      saved_axes[kFirst] = axes_[kFirst];
      saved_axes[kSecond] = axes_[kSecond];
      changed = true;
    }
    if (!Unify(a[k].atom, b[k].atom)) break;
  }
  if (agree && Distinct()) return true;
  if (changed) {
    extents_ = std::move(saved_extents);
    axes_[kFirst] = std::move(saved_axes[kFirst]);
    axes_[kSecond] = std::move(saved_axes[kSecond]);
  }
  return false;
}

bool Atoms::UnifyInOrder(AtomList first, AtomList second) {
  // Starts with the innermost. What is left of the larger atom is matched with the next.
  while (!first.empty() && !second.empty()) {
    const Atom a = first.back(), b = second.back();
    if (extents_[a] == extents_[b]) {
      Rename(b, {&a, 1});
      first.pop_back();
      second.pop_back();
      continue;
    }
    const bool a_larger = shapes_.Hint(extents_[a]) > shapes_.Hint(extents_[b]);
    const Atom high = static_cast<Atom>(extents_.size());
    if (!Split(a_larger ? a : b, extents_[a_larger ? b : a])) return false;
    AtomList& list = a_larger ? first : second;
    list.back() = high;
    list.push_back(high + 1);
  }
  return first.empty() && second.empty();
}

bool Atoms::Has(Side side, Atom atom) const {
  for (const AxisAtoms& axis : axes_[side]) {
    if (std::find(axis.begin(), axis.end(), atom) != axis.end()) return true;
  }
  return false;
}

bool Atoms::Distinct() const {
  for (const auto& side : axes_) {
    absl::InlinedVector<bool, 16> seen(extents_.size(), false);
    for (const AxisAtoms& axis : side) {
      for (const Atom atom : axis) {
        if (seen[atom]) return false;
        seen[atom] = true;
      }
    }
  }
  return true;
}

SymExpr Atoms::ValueOf(Side side, size_t axis,
                       const std::vector<uint32_t>& position) const {
  SymExpr value = 0;
  for (const Atom atom : axes_[side][axis]) {
    value = value * extents_[atom] + SymExpr::Axis(position[atom]);
  }
  return value;
}

// A pair of accesses to one buffer. Pairs that determine more axes come first.
struct Shared {
  const LinearForm* first;
  const LinearForm* second;
  bool same_offset;
  size_t terms;
};

std::vector<Shared> SharedAccesses(const FusionUnit& first,
                                   const FusionUnit& second) {
  std::vector<Shared> shared;
  for (const NestAccess& a : first.accesses) {
    if (!a.address.has_value() || a.address->terms.empty()) continue;
    for (const NestAccess& b : second.accesses) {
      if (a.buffer != b.buffer || !b.address.has_value() ||
          b.address->terms.empty()) {
        continue;
      }
      shared.push_back(
          {&*a.address, &*b.address, a.address->offset == b.address->offset,
           std::max(a.address->terms.size(), b.address->terms.size())});
      if (shared.size() >= 24) return shared;
    }
  }
  std::stable_sort(shared.begin(), shared.end(),
                   [](const Shared& a, const Shared& b) {
                     if (a.same_offset != b.same_offset) return a.same_offset;
                     return a.terms > b.terms;
                   });
  return shared;
}

// Which axes of a nest ListAtoms lists.
enum class Which { kOuter, kReduced, kAll };

// The atoms of a nest's axes, in the order of its loops.
AtomList ListAtoms(const Atoms& atoms, Side side, const LoopNest& nest,
                   Which which) {
  AtomList list;
  for (size_t k = 0; k < nest.axes.size(); ++k) {
    if (which == Which::kOuter && nest.axes[k].reduction) continue;
    if (which == Which::kReduced && !nest.axes[k].reduction) continue;
    const auto& axis = atoms.atoms(side, k);
    list.insert(list.end(), axis.begin(), axis.end());
  }
  return list;
}

AtomList Unmatched(const Atoms& atoms, AtomList list, Side other) {
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](Atom a) { return atoms.Has(other, a); }),
             list.end());
  return list;
}

// Matches the atoms that no shared access determined. All atoms of `walker` must cover
// those of `space`, the nest with more loops.
bool Cover(Atoms& atoms, Side space_side, const LoopNest& space, Which which,
           const LoopNest& walker) {
  const Side walker_side = space_side == kFirst ? kSecond : kFirst;
  AtomList wanted =
      Unmatched(atoms, ListAtoms(atoms, space_side, space, which), walker_side);
  AtomList given = Unmatched(
      atoms, ListAtoms(atoms, walker_side, walker, Which::kAll), space_side);
  if (wanted.empty() && given.empty()) return true;
  return space_side == kFirst ? atoms.UnifyInOrder(wanted, given)
                              : atoms.UnifyInOrder(given, wanted);
}

bool SameReduced(const Atoms& atoms, const LoopNest& first,
                 const LoopNest& second) {
  for (const Which which : {Which::kOuter, Which::kReduced}) {
    AtomList a = ListAtoms(atoms, kFirst, first, which);
    AtomList b = ListAtoms(atoms, kSecond, second, which);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    if (a != b) return false;
  }
  return true;
}

bool MatchRest(Atoms& atoms, const FusionUnit& first,
               const FusionUnit& second) {
  const LoopNest &a = first.nest, &b = second.nest;
  if (first.reduces == second.reduces) {
    const auto rest = [&](Side side, Which which) {
      return Unmatched(atoms,
                       ListAtoms(atoms, side, side == kFirst ? a : b, which),
                       side == kFirst ? kSecond : kFirst);
    };
    for (const Which which : {Which::kOuter, Which::kReduced}) {
      if (!atoms.UnifyInOrder(rest(kFirst, which), rest(kSecond, which))) {
        return false;
      }
    }
    return SameReduced(atoms, a, b);
  }
  const Side space = first.reduces ? kFirst : kSecond;
  const FusionUnit& reducer = first.reduces ? first : second;
  const FusionUnit& walker = first.reduces ? second : first;
  const bool everywhere =
      walker.outer_points == reducer.outer_points * reducer.reduced_points &&
      reducer.reduced_points != 1;
  if (!Cover(atoms, space, reducer.nest,
             everywhere ? Which::kAll : Which::kOuter, walker.nest)) {
    return false;
  }
  // A nest over the outer points must not share a reduced axis.
  if (everywhere) return true;
  for (const Atom atom :
       ListAtoms(atoms, space, reducer.nest, Which::kReduced)) {
    if (atoms.Has(space == kFirst ? kSecond : kFirst, atom)) return false;
  }
  return true;
}

}  // namespace

std::optional<Alignment> AlignAxes(const FusionUnit& first,
                                   const FusionUnit& second,
                                   const ShapeEnv& shapes) {
  Atoms atoms(first.nest, second.nest, shapes);
  const std::vector<Shared> all_shared = SharedAccesses(first, second);
  const Shared* last = nullptr;
  for (const Shared& shared : all_shared) {
    // Many accesses of a pair of nests are alike. A second try would change nothing.
    if (last == nullptr || !(*shared.first == *last->first) ||
        !(*shared.second == *last->second)) {
      atoms.UnifyAddresses(*shared.first, *shared.second);
    }
    last = &shared;
  }
  if (!MatchRest(atoms, first, second) || !atoms.Distinct()) {
    return std::nullopt;
  }
  const bool by_second = second.reduces && !first.reduces;
  const Side base = by_second ? kSecond : kFirst;
  const LoopNest& nest = by_second ? second.nest : first.nest;
  Alignment alignment;
  alignment.axes.reserve(atoms.size());
  alignment.first_values.reserve(first.nest.axes.size());
  alignment.second_values.reserve(second.nest.axes.size());
  std::vector<uint32_t> position(atoms.size(), 0);
  for (size_t k = 0; k < nest.axes.size(); ++k) {
    for (const Atom atom : atoms.atoms(base, k)) {
      position[atom] = static_cast<uint32_t>(alignment.axes.size());
      alignment.axes.push_back({atoms.extent(atom), nest.axes[k].reduction});
    }
  }
  for (size_t k = 0; k < first.nest.axes.size(); ++k) {
    alignment.first_values.push_back(atoms.ValueOf(kFirst, k, position));
  }
  for (size_t k = 0; k < second.nest.axes.size(); ++k) {
    alignment.second_values.push_back(atoms.ValueOf(kSecond, k, position));
  }
  return alignment;
}

bool SamePlace(const NestAccess& a, const NestAccess& b,
               const Alignment& alignment, const ShapeEnv& shapes) {
  const auto moved = [&](const SymExpr& e, const std::vector<SymExpr>& values) {
    Var var;
    if (e.is_constant()) return e;
    if (e.AsVar(&var) && var.kind == Var::Kind::kAxis) return values[var.index];
    return e.Substitute([&](Var v) {
      return v.kind == Var::Kind::kAxis ? values[v.index] : SymExpr::Of(v);
    });
  };
  std::vector<SymExpr> extents;
  for (const Axis& axis : alignment.axes) extents.push_back(axis.extent);
  for (size_t d = 0; d < a.index.size(); ++d) {
    if (HasIndirect(a.index[d]) || HasIndirect(b.index[d])) return false;
    const SymExpr left = moved(a.index[d], alignment.first_values);
    const SymExpr right = moved(b.index[d], alignment.second_values);
    if (left == right) continue;
    if (!(SimplifyIndex(left, extents, shapes) ==
          SimplifyIndex(right, extents, shapes))) {
      return false;
    }
  }
  return true;
}

}  // namespace kiln
