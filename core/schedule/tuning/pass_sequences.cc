#include "core/schedule/tuning/pass_sequences.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe {

PassSequences::PassSequences(const PassGraph& graph, const std::vector<int>& list)
    : graph_(&graph),
      previous_(graph.num_ops(), kNone),
      next_(graph.num_ops(), kNone),
      first_(graph.num_devices(), kNone),
      last_(graph.num_devices(), kNone),
      order_(list),
      place_(graph.num_ops()),
      end_(graph.num_ops()),
      rest_(graph.num_ops()),
      marked_(graph.num_ops(), false) {
  for (size_t i = 0; i < list.size(); ++i) {
    place_[list[i]] = static_cast<int>(i);
    LinkBehind(list[i], last_[graph.op(list[i]).device]);
  }
  Recompute();
}

void PassSequences::Recompute() {
  UpdateEnds(0);
  UpdateRests(graph_->num_ops() - 1);
}

Nanos PassSequences::makespan_ns() const {
  Nanos makespan = 0;
  for (int op : last_) {
    if (op != kNone) makespan = std::max(makespan, end_[op]);
  }
  return makespan;
}

Nanos PassSequences::EarliestBy(int op) const {
  Nanos earliest = 0;
  for (const PassGraph::Arc& arc : graph_->Before(op)) {
    earliest = std::max(earliest, end_[arc.op] + arc.delay_ns);
  }
  return earliest;
}

// Returns when the device has finished the pass before `op`.
Nanos PassSequences::FreeBefore(int op) const {
  return previous_[op] == kNone ? graph_->ReadyNs(graph_->op(op).device) : end_[previous_[op]];
}

Nanos PassSequences::RestBy(int op) const {
  Nanos rest = 0;
  for (const PassGraph::Arc& arc : graph_->After(op)) {
    rest = std::max(rest, arc.delay_ns + rest_[arc.op]);
  }
  return rest;
}

void PassSequences::UpdateEnds(int from) {
  for (int i = from; i < static_cast<int>(order_.size()); ++i) {
    const int op = order_[i];
    end_[op] = std::max(FreeBefore(op), EarliestBy(op)) + graph_->op(op).ns;
  }
}

void PassSequences::UpdateRests(int from) {
  for (int i = from; i >= 0; --i) {
    const int op = order_[i];
    const Nanos after = next_[op] == kNone ? 0 : rest_[next_[op]];
    rest_[op] = std::max(after, RestBy(op)) + graph_->op(op).ns;
  }
}

// A path from a successor of `op` to `other` would be at least as long as `other`'s rest, so no
// such path exists if every successor has less rest after its end.
bool PassSequences::CanGoBehind(int op, int other) const {
  for (const PassGraph::Arc& arc : graph_->After(op)) {
    if (arc.op == other || rest_[arc.op] - graph_->op(arc.op).ns >= rest_[other]) return false;
  }
  return true;
}

bool PassSequences::CanGoBefore(int op, int other) const {
  for (const PassGraph::Arc& arc : graph_->Before(op)) {
    if (arc.op == other || StartOf(arc.op) >= end_[other]) return false;
  }
  return true;
}

// Without `op`, `other` ends earlier by at most the time from the end of the pass before `op` to
// the end of `op`.
Nanos PassSequences::BoundBehind(int op, int other) const {
  const Nanos free = FreeBefore(op);
  const Nanos after = next_[other] == kNone ? 0 : rest_[next_[other]];
  return end_[other] - (StartOf(op) - free) + std::max(after, RestBy(op));
}

Nanos PassSequences::BoundBefore(int op, int other) const {
  const Nanos after = next_[op] == kNone ? 0 : rest_[next_[op]];
  const Nanos idle_after = rest_[op] - graph_->op(op).ns - after;
  return std::max(FreeBefore(other), EarliestBy(op)) + rest_[other] - idle_after;
}

Nanos PassSequences::EstimateBehind(int op, int other) {
  window_.clear();
  for (int i = next_[op]; i != other; i = next_[i]) window_.push_back(i);
  window_.push_back(other);
  window_.push_back(op);
  return Estimate();
}

Nanos PassSequences::EstimateBefore(int op, int other) {
  window_.assign(1, op);
  for (int i = other; i != op; i = next_[i]) window_.push_back(i);
  return Estimate();
}

// Computes the longest path if the passes of the window take each other's places in its order.
Nanos PassSequences::Estimate() {
  int previous = kNone, next = kNone;  // the neighbours of the window
  for (int op : window_) marked_[op] = true;
  for (int op : window_) {
    if (previous_[op] != kNone && !marked_[previous_[op]]) previous = previous_[op];
    if (next_[op] != kNone && !marked_[next_[op]]) next = next_[op];
  }
  for (int op : window_) marked_[op] = false;
  window_end_.clear();
  Nanos free = previous == kNone ? graph_->ReadyNs(graph_->op(window_[0]).device) : end_[previous];
  for (int op : window_) {
    free = std::max(free, EarliestBy(op)) + graph_->op(op).ns;
    window_end_.push_back(free);
  }
  Nanos longest = 0, after = next == kNone ? 0 : rest_[next];
  for (size_t i = window_.size(); i-- > 0;) {
    after = std::max(after, RestBy(window_[i]));
    longest = std::max(longest, window_end_[i] + after);
    after += graph_->op(window_[i]).ns;
  }
  return longest;
}

void PassSequences::Unlink(int op) {
  const int device = graph_->op(op).device;
  (previous_[op] == kNone ? first_[device] : next_[previous_[op]]) = next_[op];
  (next_[op] == kNone ? last_[device] : previous_[next_[op]]) = previous_[op];
}

void PassSequences::LinkBehind(int op, int other) {
  const int device = graph_->op(op).device;
  previous_[op] = other;
  int& link = other == kNone ? first_[device] : next_[other];
  next_[op] = link;
  link = op;
  (next_[op] == kNone ? last_[device] : previous_[next_[op]]) = op;
}

void PassSequences::MoveBehind(int op, int other) {
  const int low = place_[op], high = place_[other];
  Unlink(op);
  LinkBehind(op, other);
  Reorder(low, high, op, /*behind=*/true);
}

void PassSequences::MoveBefore(int op, int other) {
  const int low = place_[other], high = place_[op];
  Unlink(op);
  LinkBehind(op, previous_[other]);
  Reorder(low, high, op, /*behind=*/false);
}

bool PassSequences::FollowsMarked(int op) const {
  if (previous_[op] != kNone && marked_[previous_[op]]) return true;
  for (const PassGraph::Arc& arc : graph_->Before(op)) {
    if (marked_[arc.op]) return true;
  }
  return false;
}

bool PassSequences::PrecedesMarked(int op) const {
  if (next_[op] != kNone && marked_[next_[op]]) return true;
  for (const PassGraph::Arc& arc : graph_->After(op)) {
    if (marked_[arc.op]) return true;
  }
  return false;
}

// Only passes at positions [low, high] can change places with `op`. The followers of `op` there
// move behind the others with it, or its predecessors move before them.
void PassSequences::Reorder(int low, int high, int op, bool behind) {
  marked_[op] = true;
  if (behind) {
    for (int i = low + 1; i <= high; ++i) marked_[order_[i]] = FollowsMarked(order_[i]);
  } else {
    for (int i = high - 1; i >= low; --i) marked_[order_[i]] = PrecedesMarked(order_[i]);
  }
  // The pass that `op` moved past must not be marked.
  DPIPE_CHECK(!marked_[order_[behind ? high : low]]) << "the move closes a cycle of passes";
  window_.clear();
  for (bool marked : {!behind, behind}) {
    for (int i = low; i <= high; ++i) {
      if (static_cast<bool>(marked_[order_[i]]) == marked) window_.push_back(order_[i]);
    }
  }
  for (int i = low; i <= high; ++i) {
    order_[i] = window_[i - low];
    place_[order_[i]] = i;
    marked_[order_[i]] = false;
  }
  UpdateEnds(low);
  UpdateRests(high);
}

}  // namespace dpipe
