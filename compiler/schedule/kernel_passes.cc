#include "compiler/schedule/kernel_passes.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "compiler/loop/index_expr.h"

namespace kiln {
namespace {

// Visits the nodes that a node reads: its arguments and those in its indices.
void VisitInputs(const ScalarNode& node, absl::FunctionRef<void(ScalarId)> f) {
  for (ScalarId arg : node.args) f(arg);
  for (const SymExpr& index : node.index) {
    if (!HasIndirect(index)) continue;
    index.VisitVars([&](Var var) {
      if (var.kind == Var::Kind::kIndirect) f(var.index);
    });
  }
}

class Planner {
 public:
  Planner(const LoopNest& nest, const NestFacts& facts,
          const std::vector<bool>& keep)
      : nest_(nest),
        facts_(facts),
        keep_(keep),
        outer_done_(nest.body.size(), false),
        live_(nest.body.size(), false) {}

  KernelPasses Run() {
    MarkLive();
    if (facts_.reduced != 0) MakePasses();
    for (uint32_t s = 0; s < nest_.stores.size(); ++s) {
      if (facts_.StoreIsReduced(s)) continue;
      plan_.last_stores.push_back(s);
      VisitStore(nest_.stores[s], [&](ScalarId id) { Outer(id, plan_.last); });
    }
    std::sort(plan_.last.begin(), plan_.last.end());
    return std::move(plan_);
  }

 private:
  static void VisitStore(const Store& store,
                         absl::FunctionRef<void(ScalarId)> f) {
    f(store.value);
    if (store.mask != Store::kNoMask) f(store.mask);
    for (const SymExpr& index : store.index)
      index.VisitVars([&](Var var) {
        if (var.kind == Var::Kind::kIndirect) f(var.index);
      });
  }

  void MarkLive() {
    for (const Store& store : nest_.stores)
      VisitStore(store, [&](ScalarId id) { live_[id] = true; });
    for (ScalarId id = static_cast<ScalarId>(nest_.body.size()); id-- > 0;)
      if (live_[id])
        VisitInputs(nest_.body[id], [&](ScalarId in) { live_[in] = true; });
  }

  void MakePasses() {
    uint16_t last = 0;
    for (ScalarId id = 0; id < nest_.body.size(); ++id)
      if (live_[id] && nest_.body[id].op == ScalarOp::kReduce)
        last = std::max<uint16_t>(last, facts_.stage[id] - 1);
    for (uint32_t s = 0; s < nest_.stores.size(); ++s)
      if (facts_.StoreIsReduced(s))
        last = std::max(last, facts_.store_stage[s]);
    plan_.passes.resize(last + 1);
    for (ScalarId id = 0; id < nest_.body.size(); ++id)
      if (live_[id] && nest_.body[id].op == ScalarOp::kReduce)
        plan_.passes[facts_.stage[id] - 1].reduces.push_back(id);
    for (uint32_t s = 0; s < nest_.stores.size(); ++s)
      if (facts_.StoreIsReduced(s)) plan_.passes[last].stores.push_back(s);

    // Backwards, because a later pass determines what earlier passes keep.
    std::vector<std::vector<ScalarId>> outer(plan_.passes.size());
    for (uint16_t p = last + 1; p-- > 0;) Inside(p, outer[p]);
    // Forwards, because a value that does not depend on reduced axes is computed before
    // the first pass that needs it.
    for (size_t p = 0; p < plan_.passes.size(); ++p) {
      for (ScalarId id : outer[p]) Outer(id, plan_.passes[p].before);
      std::sort(plan_.passes[p].before.begin(), plan_.passes[p].before.end());
    }
  }

  // Collects what pass `p` computes. Adds to `outer` what it reads from outside.
  void Inside(uint16_t p, std::vector<ScalarId>& outer) {
    KernelPass& pass = plan_.passes[p];
    std::vector<bool> seen(nest_.body.size(), false);
    std::vector<ScalarId> todo = pass.keeps;
    for (ScalarId reduce : pass.reduces)
      VisitInputs(nest_.body[reduce], [&](ScalarId in) { todo.push_back(in); });
    for (uint32_t s : pass.stores)
      VisitStore(nest_.stores[s], [&](ScalarId id) { todo.push_back(id); });
    while (!todo.empty()) {
      const ScalarId id = todo.back();
      todo.pop_back();
      if (seen[id]) continue;
      seen[id] = true;
      if (!facts_.IsReduced(id)) {
        outer.push_back(id);
      } else if (!keep_.empty() && keep_[id] && facts_.stage[id] < p) {
        pass.kept.push_back(id);
        auto& keeps = plan_.passes[facts_.stage[id]].keeps;
        if (std::find(keeps.begin(), keeps.end(), id) == keeps.end())
          keeps.push_back(id);
      } else {
        pass.inside.push_back(id);
        VisitInputs(nest_.body[id], [&](ScalarId in) { todo.push_back(in); });
      }
    }
    std::sort(pass.inside.begin(), pass.inside.end());
    std::sort(pass.kept.begin(), pass.kept.end());
  }

  // Adds `id` and what it reads to `list`, unless computed already. Results of
  // reductions exist as soon as their pass is finished.
  void Outer(ScalarId id, std::vector<ScalarId>& list) {
    std::vector<ScalarId> todo = {id};
    while (!todo.empty()) {
      const ScalarId next = todo.back();
      todo.pop_back();
      if (outer_done_[next]) continue;
      outer_done_[next] = true;
      if (nest_.body[next].op == ScalarOp::kReduce) continue;
      if (nest_.body[next].op != ScalarOp::kReduceResult) list.push_back(next);
      VisitInputs(nest_.body[next], [&](ScalarId in) { todo.push_back(in); });
    }
  }

  const LoopNest& nest_;
  const NestFacts& facts_;
  const std::vector<bool>& keep_;
  std::vector<bool> outer_done_;
  std::vector<bool> live_;
  KernelPasses plan_;
};

}  // namespace

KernelPasses PlanPasses(const LoopNest& nest, const NestFacts& facts,
                        const std::vector<bool>& keep) {
  return Planner(nest, facts, keep).Run();
}

bool IsPlainLoad(const LoopNest& nest, const NestFacts& facts, ScalarId id) {
  const ScalarNode& node = nest.body[id];
  return node.op == ScalarOp::kLoad && node.args.empty() &&
         !HasIndirect(facts.load_offset[id]);
}

std::vector<ScalarId> LoadsTogether(
    const LoopNest& nest, const NestFacts& facts,
    const std::vector<ScalarId>& nodes,
    absl::FunctionRef<bool(ScalarId)> is_at_hand) {
  std::vector<ScalarId> loads;
  for (ScalarId id : nodes)
    if (IsPlainLoad(nest, facts, id) && !is_at_hand(id)) loads.push_back(id);
  return loads;
}

bool AreWrittenOut(const LoopNest& nest, const NestFacts& facts,
                   const std::vector<ScalarId>& nodes,
                   absl::FunctionRef<bool(ScalarId)> is_at_hand, bool stores) {
  if (!stores || !LoadsTogether(nest, facts, nodes, is_at_hand).empty())
    return true;
  return std::none_of(nodes.begin(), nodes.end(), [&](ScalarId id) {
    return nest.body[id].op == ScalarOp::kLoad && !is_at_hand(id);
  });
}

std::vector<bool> ValuesToHold(const LoopNest& nest, const NestFacts& facts,
                               bool costly) {
  std::vector<int> readers(nest.body.size(), 0);
  for (const KernelPass& pass : PlanPasses(nest, facts, {}).passes)
    for (ScalarId id : pass.inside) ++readers[id];
  std::vector<bool> hold(nest.body.size(), false);
  for (ScalarId id = 0; id < nest.body.size(); ++id) {
    const ScalarNode& node = nest.body[id];
    if (readers[id] < 2) continue;
    if (node.op == ScalarOp::kLoad) {
      hold[id] = IsPlainLoad(nest, facts, id);
    } else {
      hold[id] = costly && IsCostly(node.op);
    }
  }
  return hold;
}

}  // namespace kiln
