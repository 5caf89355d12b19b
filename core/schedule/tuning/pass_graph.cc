#include "core/schedule/tuning/pass_graph.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "core/base/check.h"

namespace dpipe {
namespace {

Nanos DelayOf(const std::vector<Nanos>& delays, int stage) {
  return delays.empty() ? 0 : delays[stage];
}

}  // namespace

PassGraph::PassGraph(const Schedule& schedule, const PassGraphCosts& times)
    : schedule_(schedule), ready_ns_(times.ready_ns) {
  ready_ns_.resize(schedule.num_devices(), 0);
  for (int d = 0; d < schedule.num_devices(); ++d) {
    for (const Slot& slot : schedule.slots(d)) splits_ |= slot.pass == Pass::kWeightGrad;
  }
  AddOps(times);
  SetArcs(EdgesOf(times));
  rank_.resize(ops_.size());
  const std::vector<int> order = ListBy(std::vector<double>(ops_.size(), 0));
  for (size_t i = 0; i < order.size(); ++i) rank_[order[i]] = static_cast<int>(i);
}

int PassGraph::AddOp(Pass pass, int stage, int micro_batch, Nanos ns) {
  ops_.push_back({{pass, micro_batch, stage}, schedule_.DeviceOf(stage), ns});
  return static_cast<int>(ops_.size()) - 1;
}

void PassGraph::AddOps(const PassGraphCosts& times) {
  DPIPE_CHECK_EQ(static_cast<int>(times.costs.size()), schedule_.num_stages());
  pairs_.resize(schedule_.num_stages());
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    const PassCosts& costs = times.costs[s];
    const int count = schedule_.chains()[schedule_.ChainOf(s)].num_micro_batches;
    for (int m = 0; m < count; ++m) {
      PairOps pair;
      pair.forward = AddOp(Pass::kForward, s, m, costs.forward);
      if (!schedule_.IsForwardOnly(s) && splits_) {
        pair.gradient = AddOp(Pass::kInputGrad, s, m, costs.input_grad);
        pair.weights = AddOp(Pass::kWeightGrad, s, m, costs.weight_grad);
      } else if (!schedule_.IsForwardOnly(s)) {
        pair.gradient = AddOp(Pass::kBackward, s, m, costs.input_grad + costs.weight_grad);
        pair.weights = pair.gradient;
      }
      pairs_[s].push_back(pair);
    }
  }
}

void PassGraph::SetCosts(int stage, const PassCosts& costs) {
  for (const PairOps& pair : pairs_[stage]) {
    ops_[pair.forward].ns = costs.forward;
    if (pair.gradient == kNone) continue;
    const bool joint = pair.weights == pair.gradient;
    ops_[pair.gradient].ns = costs.input_grad + (joint ? costs.weight_grad : 0);
    if (!joint) ops_[pair.weights].ns = costs.weight_grad;
  }
}

std::vector<PassGraph::Edge> PassGraph::EdgesOf(const PassGraphCosts& times) const {
  std::vector<Edge> edges;
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    const int next = schedule_.Next(s);
    const int limit = times.stage_limits.empty() ? 0 : times.stage_limits[s];
    for (int m = 0; m < static_cast<int>(pairs_[s].size()); ++m) {
      const PairOps& pair = pairs_[s][m];
      if (next >= 0) {
        edges.push_back(
            {pair.forward, pairs_[next][m].forward, DelayOf(times.forward_delay_ns, s)});
      }
      if (pair.gradient == kNone) continue;
      if (next < 0) {
        edges.push_back({pair.forward, pair.gradient, 0});
      } else {
        edges.push_back(
            {pairs_[next][m].gradient, pair.gradient, DelayOf(times.gradient_delay_ns, next)});
      }
      if (pair.weights != pair.gradient) edges.push_back({pair.gradient, pair.weights, 0});
      if (limit > 0 && m >= limit) {
        edges.push_back({pairs_[s][m - limit].weights, pair.forward, 0});
      }
    }
  }
  return edges;
}

void PassGraph::SetArcs(const std::vector<Edge>& edges) {
  before_begin_.assign(ops_.size() + 1, 0);
  after_begin_ = before_begin_;
  for (const Edge& edge : edges) {
    ++before_begin_[edge.to + 1];
    ++after_begin_[edge.from + 1];
  }
  std::partial_sum(before_begin_.begin(), before_begin_.end(), before_begin_.begin());
  std::partial_sum(after_begin_.begin(), after_begin_.end(), after_begin_.begin());
  before_.resize(edges.size());
  after_.resize(edges.size());
  std::vector<int> next_before = before_begin_, next_after = after_begin_;
  for (const Edge& edge : edges) {
    before_[next_before[edge.to]++] = {edge.from, edge.delay_ns};
    after_[next_after[edge.from]++] = {edge.to, edge.delay_ns};
  }
}

std::vector<double> PassGraph::OwnTimes() const {
  std::vector<double> times(ops_.size(), 0);
  std::vector<PassCosts> costs(schedule_.num_stages());
  for (int s = 0; s < schedule_.num_stages(); ++s) {
    const PairOps& pair = pairs_[s][0];
    costs[s].forward = ops_[pair.forward].ns;
    costs[s].input_grad = pair.gradient == kNone ? 0 : ops_[pair.gradient].ns;
    costs[s].weight_grad = pair.weights == pair.gradient ? 0 : ops_[pair.weights].ns;
  }
  const std::vector<std::vector<Nanos>> starts = schedule_.StartTimes(costs);
  for (int d = 0; d < schedule_.num_devices(); ++d) {
    for (size_t i = 0; i < starts[d].size(); ++i) {
      const Slot& slot = schedule_.slots(d)[i];
      const PairOps& pair = pairs_[slot.stage][slot.micro_batch];
      const int op = slot.pass == Pass::kForward      ? pair.forward
                     : slot.pass == Pass::kWeightGrad ? pair.weights
                                                      : pair.gradient;
      times[op] = static_cast<double>(starts[d][i]);
      // If only some passes are split in the schedule, joint ones are split here.
      if (slot.pass == Pass::kBackward && splits_) {
        times[pair.weights] = static_cast<double>(starts[d][i] + ops_[op].ns);
      }
    }
  }
  return times;
}

std::vector<int> PassGraph::ListBy(const std::vector<double>& keys) const {
  std::vector<int> missing(ops_.size());
  using Entry = std::tuple<double, bool, int>;
  const auto entry = [&](int op) { return Entry(keys[op], ops_[op].ns > 0, op); };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (int op = 0; op < num_ops(); ++op) {
    missing[op] = Before(op).size();
    if (missing[op] == 0) ready.push(entry(op));
  }
  std::vector<int> list;
  list.reserve(ops_.size());
  while (!ready.empty()) {
    const int op = std::get<int>(ready.top());
    ready.pop();
    list.push_back(op);
    for (const Arc& arc : After(op)) {
      if (--missing[arc.op] == 0) ready.push(entry(arc.op));
    }
  }
  DPIPE_CHECK_EQ(list.size(), ops_.size());
  return list;
}

Schedule PassGraph::OrderedBy(const std::vector<Nanos>& start_ns) const {
  std::vector<int> list(ops_.size());
  std::iota(list.begin(), list.end(), 0);
  std::sort(list.begin(), list.end(), [&](int a, int b) {
    return std::make_tuple(start_ns[a], ops_[a].ns > 0, rank_[a]) <
           std::make_tuple(start_ns[b], ops_[b].ns > 0, rank_[b]);
  });
  std::vector<std::vector<Slot>> slots(schedule_.num_devices());
  std::vector<std::array<int, 4>> next(schedule_.num_stages(), {0, 0, 0, 0});
  for (int op : list) {
    Slot slot = ops_[op].slot;
    slot.micro_batch = next[slot.stage][static_cast<int>(slot.pass)]++;
    slots[ops_[op].device].push_back(slot);
  }
  auto schedule = Schedule::Create(schedule_.name(), schedule_.chains(), std::move(slots));
  DPIPE_CHECK(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

}  // namespace dpipe
