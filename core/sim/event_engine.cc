#include "core/sim/event_engine.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace dpipe {

EventEngine::EventEngine(const PlanGraph& graph, const ClusterSpec& cluster, Nanos norm_latency_ns,
                         int num_steps, bool periodic)
    : graph_(graph),
      cluster_(cluster),
      num_steps_(num_steps),
      periodic_(periodic),
      first_step_(periodic || !graph.works_across_steps ? 0 : -1),
      contention_(cluster.contention_factor() > 1 ||
                  (cluster.collectives_use_compute() && !graph.collectives.empty())),
      norm_latency_(norm_latency_ns),
      ranks_(graph.num_ranks()),
      posts_(At(num_steps, static_cast<int>(graph.messages.size()), 0)),
      arrivals_(At(num_steps, graph.num_arrivals, 0)),
      collectives_(At(num_steps, static_cast<int>(graph.collectives.size()), 0)),
      optimizers_(At(num_steps, 1, 0)),
      flushes_(At(num_steps, graph.num_flushes, 0)),
      links_free_(graph.num_shared_links),
      step_start_ns_(num_steps + 1, kUnknown),
      is_first_stage_(graph.num_ranks(), false) {
  for (RankState& rank : ranks_) rank.step = first_step_;
  if (first_step_ == 0) step_start_ns_[0] = 0;
  // A message is two instructions and two events; the prologue has fewer than a step.
  events_.reserve(graph.nodes.size() * (num_steps - first_step_));
  for (int rank : graph.first_stage_ranks) is_first_stage_[rank] = true;
}

bool EventEngine::Active(const PlanNode& node, int step) const {
  if (periodic_ || !graph_.works_across_steps) return true;
  if (step == -1) return node.step_offset == 1;
  return step + 1 < num_steps_ || node.step_offset == 0;
}

absl::Status EventEngine::Run() {
  for (int r = 0; r < graph_.num_ranks(); ++r) Wake(r, 0);
  while (!alarms_.empty()) {
    const Alarm alarm = alarms_.top();
    alarms_.pop();
    if (alarm.kind() != kRank) {
      UpdateContention(alarm);
      continue;
    }
    RankState& state = ranks_[alarm.rank()];
    if (alarm.version != state.version) continue;
    if (state.running >= 0) {
      events_[state.running].event.end_ns = alarm.time;
      state.running = -1;
    }
    Advance(alarm.rank(), alarm.time);
  }
  std::string waiting;
  for (int r = 0; r < graph_.num_ranks(); ++r) {
    if (ranks_[r].done) continue;
    absl::StrAppend(&waiting, waiting.empty() ? "" : ", ", "rank ", r, " at instruction ",
                    ranks_[r].next, " of step ", ranks_[r].step);
  }
  if (waiting.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("the simulated plan deadlocks: ", waiting));
}

void EventEngine::Wake(int rank, Nanos now) {
  ranks_[rank].waiting = false;
  alarms_.push({now, OrderOf(kRank, rank), ranks_[rank].version});
}

void EventEngine::Advance(int rank, Nanos now) {
  while (Step(rank, &now)) {
  }
}

// Continues after a computation on this rank. Usually nothing else happens before its end, which
// saves the alarm.
bool EventEngine::Continue(int rank, Nanos* now) {
  if (contention_) return false;  // Start has set the alarm
  const Nanos end = events_[ranks_[rank].last_event].event.end_ns;
  const Alarm alarm{end, OrderOf(kRank, rank), ranks_[rank].version};
  if (!alarms_.empty() && alarm > alarms_.top()) {
    Wake(rank, end);
    return false;
  }
  *now = end;
  return true;
}

bool EventEngine::FinishStep(int rank, Nanos now) {
  RankState& state = ranks_[rank];
  state.next = 0;
  if (++state.step == 0) {
    MeetAfterPrologue(rank, now);
    return false;
  }
  if (is_first_stage_[rank]) {
    Nanos& start = step_start_ns_[state.step];
    if (start == kUnknown || now < start) start = now;
  }
  state.done = state.step == num_steps_;
  return true;
}

// As in the runtime, the first step starts after all ranks have finished the prologue.
void EventEngine::MeetAfterPrologue(int rank, Nanos now) {
  const Moment arrival{now, ranks_[rank].last_event};
  if (prologue_.count == 0) prologue_.latest = arrival;
  UpdateLatest(arrival, &prologue_.latest);
  if (++prologue_.count < graph_.num_ranks()) return;
  step_start_ns_[0] = prologue_.latest.time + norm_latency_;
  for (int r = 0; r < graph_.num_ranks(); ++r) {
    ranks_[r].last_event = prologue_.latest.cause;
    Wake(r, step_start_ns_[0]);
  }
}

// Handles one instruction. Returns false if the rank must be woken before it can continue.
bool EventEngine::Step(int rank, Nanos* now) {
  RankState& state = ranks_[rank];
  if (state.done) return false;
  if (state.next == graph_.num_nodes(rank)) {
    return FinishStep(rank, *now);
  }
  const PlanNode& node = graph_.node(rank, state.next);
  if (!Active(node, state.step)) {
    ++state.next;
    return true;
  }
  switch (node.kind) {
    case NodeKind::kSend:
    case NodeKind::kRecv:
      PostMessage(rank, node, *now);
      ++state.next;
      return true;
    case NodeKind::kInstant:
      state.last_event = AddEvent({rank, TraceEvent::COMPUTE, state.step, state.next, *now, *now},
                                  state.last_event);
      ++state.next;
      return true;
    case NodeKind::kCompute:
      return Compute(rank, node, now);
    case NodeKind::kCollective:
      return Collect(rank, node, *now);
    case NodeKind::kOptimizer:
      return Optimize(rank, node, now);
    case NodeKind::kFlush:
      return Flush(rank, node, *now);
  }
  return false;
}

// Sets the time at which all inputs of the instruction are there; returns false if it is still
// unknown.
bool EventEngine::ReadyAt(int rank, const PlanNode& node, Nanos now, Moment* ready) {
  RankState& state = ranks_[rank];
  *ready = {now, state.last_event};
  for (int w = node.waits_begin; w < node.waits_end; ++w) {
    const PlanWait& wait = graph_.waits[w];
    const int step = state.step - (wait.previous_step ? 1 : 0);
    if (step < first_step_) continue;  // nothing to wait for
    const Arrival& arrival = arrivals_[At(step, graph_.num_arrivals, wait.arrival)];
    if (arrival.time == kUnknown) {
      state.waiting = true;
      return false;
    }
    UpdateLatest({arrival.time, arrival.event}, ready);
  }
  return true;
}

bool EventEngine::Compute(int rank, const PlanNode& node, Nanos* now) {
  Moment ready;
  if (!ReadyAt(rank, node, *now, &ready)) return false;
  Start(rank, ranks_[rank].next++, ready, node.duration);
  return Continue(rank, now);
}

bool EventEngine::Optimize(int rank, const PlanNode& node, Nanos* now) {
  RankState& state = ranks_[rank];
  if (state.open_reductions > 0) {
    state.waiting = true;
    return false;
  }
  Moment arrival{*now, state.last_event};
  UpdateLatest(state.reductions_end, &arrival);
  if (!graph_.global_norm) {
    Start(rank, state.next++, arrival, node.duration);
    return Continue(rank, now);
  }
  Rendezvous& rendezvous = optimizers_[At(state.step, 1, 0)];
  UpdateLatest(arrival, &rendezvous.latest);
  if (rendezvous.latest.cause < 0) rendezvous.latest = arrival;
  StartEverywhere(&rendezvous);
  return false;
}

// When the last rank arrives, starts the instruction on all ranks, which continue when woken.
void EventEngine::StartEverywhere(Rendezvous* rendezvous) {
  if (++rendezvous->count < graph_.num_ranks()) return;
  const Moment start{rendezvous->latest.time + norm_latency_, rendezvous->latest.cause};
  for (int r = 0; r < graph_.num_ranks(); ++r) {
    const int instruction = ranks_[r].next++;
    const Nanos duration = graph_.node(r, instruction).duration;
    Start(r, instruction, start, duration);
    if (!contention_) Wake(r, start.time + duration);
  }
}

bool EventEngine::Flush(int rank, const PlanNode& node, Nanos now) {
  Moment arrival;
  if (!ReadyAt(rank, node, now, &arrival)) return false;
  Rendezvous& rendezvous = flushes_[At(ranks_[rank].step, graph_.num_flushes, node.index)];
  UpdateLatest(arrival, &rendezvous.latest);
  if (rendezvous.latest.cause < 0) rendezvous.latest = arrival;
  StartEverywhere(&rendezvous);
  return false;
}

// Keeps at most one bucket's whole gradients in memory, as in the runtime.
bool EventEngine::AwaitReductions(int rank, Nanos now) {
  RankState& state = ranks_[rank];
  if (state.open_reductions > 0) {
    state.waiting = true;
    return false;
  }
  if (state.reductions_end.time > now) {
    Wake(rank, state.reductions_end.time);
    return false;
  }
  // The rank's next events are caused by the reduction.
  if (state.reductions_end.time == now && now > 0) state.last_event = state.reductions_end.cause;
  return true;
}

bool EventEngine::Collect(int rank, const PlanNode& node, Nanos now) {
  if (node.awaits_reductions && !AwaitReductions(rank, now)) return false;
  RankState& state = ranks_[rank];
  const PlanCollective& collective = graph_.collectives[node.index];
  Rendezvous& rendezvous =
      collectives_[At(state.step, static_cast<int>(graph_.collectives.size()), node.index)];
  const Moment arrival{now, state.last_event};
  if (rendezvous.count == 0) rendezvous.latest = arrival;
  UpdateLatest(arrival, &rendezvous.latest);
  const bool complete = ++rendezvous.count == collective.members_end - collective.members_begin;
  if (!node.gathers) ++state.open_reductions;
  ++state.next;
  if (complete) StartCollective(state.step, node, rendezvous);
  return true;
}

// Collectives run on their own streams, but may take the devices' compute units.
void EventEngine::StartCollective(int step, const PlanNode& node, const Rendezvous& rendezvous) {
  const PlanCollective& collective = graph_.collectives[node.index];
  Moment start = rendezvous.latest;
  for (int m = collective.members_begin; m < collective.members_end; ++m) {
    const int rank = graph_.members[m].rank;
    UpdateLatest(ranks_[rank].collective_free, &start);
  }
  AwaitLinks(collective.links_begin, collective.links_end, &start);
  const Nanos end = start.time + collective.duration;
  for (int m = collective.members_begin; m < collective.members_end; ++m) {
    const auto& [member, instruction] = graph_.members[m];
    RankState& state = ranks_[member];
    const int event =
        AddEvent({member, TraceEvent::COLLECTIVE, step, instruction, start.time, end}, start.cause);
    state.collective_free = {end, event};
    if (m + 1 == collective.members_end) {
      OccupyLinks(collective.links_begin, collective.links_end, start.time, event);
    }
    AddTransfer(member, start.time, end);
    if (cluster_.collectives_use_compute()) AddBlockingCollective(member, start.time, end);
    if (node.gathers) {
      arrivals_[At(step, graph_.num_arrivals, graph_.node(member, instruction).arrival)] = {end,
                                                                                            event};
    } else {
      UpdateLatest({end, event}, &state.reductions_end);
      --state.open_reductions;
    }
    if (state.waiting) Wake(member, rendezvous.latest.time);
  }
}

void EventEngine::Start(int rank, int instruction, const Moment& at, Nanos duration) {
  RankState& state = ranks_[rank];
  const int event = AddEvent(
      {rank, TraceEvent::COMPUTE, state.step, instruction, at.time, at.time + duration}, at.cause);
  state.last_event = event;
  if (!contention_) return;
  state.running = event;
  state.remaining_ns = static_cast<double>(duration);
  state.updated_ns = at.time;
  Reschedule(rank, at.time);
}

void EventEngine::PostMessage(int rank, const PlanNode& node, Nanos now) {
  const RankState& state = ranks_[rank];
  Post& post = posts_[At(state.step, static_cast<int>(graph_.messages.size()), node.index)];
  if (post.time == kUnknown) {
    post = {now, state.last_event};
    return;
  }
  Moment ready{post.time, post.cause};
  UpdateLatest({now, state.last_event}, &ready);
  StartTransfer(graph_.messages[node.index], node.index, state.step, ready, now);
}

void EventEngine::StartTransfer(const PlanMessage& message, int index, int step,
                                const Moment& ready, Nanos now) {
  Moment start = ready;
  RankState& from = ranks_[message.from];
  RankState& to = ranks_[message.to];
  UpdateLatest(from.send_free, &start);
  UpdateLatest(to.recv_free, &start);
  AwaitLinks(message.links_begin, message.links_end, &start);
  const Nanos end = start.time + message.duration;
  AddEvent({message.from, TraceEvent::SEND_STREAM, step, message.send, start.time, end},
           start.cause);
  const int event = AddEvent(
      {message.to, TraceEvent::RECV_STREAM, step, message.recv, start.time, end}, start.cause);
  const Moment free{end, event};
  from.send_free = free;
  to.recv_free = free;
  OccupyLinks(message.links_begin, message.links_end, start.time, event);
  arrivals_[At(step, graph_.num_arrivals, index)] = {end, event};
  AddTransfer(message.from, start.time, end);
  AddTransfer(message.to, start.time, end);
  if (to.waiting) Wake(message.to, now);
}

void EventEngine::AwaitLinks(int begin, int end, Moment* start) const {
  for (int u = begin; u < end; ++u) UpdateLatest(links_free_[graph_.link_uses[u].link], start);
}

void EventEngine::OccupyLinks(int begin, int end, Nanos start, int event) {
  for (int u = begin; u < end; ++u) {
    links_free_[graph_.link_uses[u].link] = {start + graph_.link_uses[u].duration_ns, event};
  }
}

int EventEngine::AddEvent(const StreamEvent& event, int cause) {
  events_.push_back({event, cause});
  return static_cast<int>(events_.size()) - 1;
}

void EventEngine::AddTransfer(int rank, Nanos start, Nanos end) {
  if (cluster_.contention_factor() <= 1 || start == end) return;
  alarms_.push({start, OrderOf(kTransferStart, rank), 0});
  alarms_.push({end, OrderOf(kTransferEnd, rank), 0});
}

void EventEngine::AddBlockingCollective(int rank, Nanos start, Nanos end) {
  if (start == end) return;
  alarms_.push({start, OrderOf(kCollectiveStart, rank), 0});
  alarms_.push({end, OrderOf(kCollectiveEnd, rank), 0});
}

double EventEngine::SlowDown(const RankState& state) const {
  if (state.collectives > 0) return 0;
  return state.transfers > 0 ? cluster_.contention_factor() : 1;
}

void EventEngine::UpdateContention(const Alarm& alarm) {
  RankState& state = ranks_[alarm.rank()];
  if (state.running >= 0 && alarm.time > state.updated_ns) {
    const double elapsed = static_cast<double>(alarm.time - state.updated_ns);
    const double factor = SlowDown(state);
    if (factor > 0) state.remaining_ns = std::max(0.0, state.remaining_ns - elapsed / factor);
    state.updated_ns = alarm.time;
  }
  if (alarm.kind() == kCollectiveStart || alarm.kind() == kCollectiveEnd) {
    state.collectives += alarm.kind() == kCollectiveStart ? 1 : -1;
  } else {
    state.transfers += alarm.kind() == kTransferStart ? 1 : -1;
  }
  if (state.running >= 0) Reschedule(alarm.rank(), std::max(alarm.time, state.updated_ns));
}

// Schedules the end of the running computation as if nothing else changed.
void EventEngine::Reschedule(int rank, Nanos now) {
  RankState& state = ranks_[rank];
  const double factor = SlowDown(state);
  ++state.version;
  if (factor == 0) return;  // until the collective ends
  const Nanos end = now + static_cast<Nanos>(std::ceil(state.remaining_ns * factor));
  events_[state.running].event.end_ns = end;
  alarms_.push({end, OrderOf(kRank, rank), state.version});
}

}  // namespace dpipe
