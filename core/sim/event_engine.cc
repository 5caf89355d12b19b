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
      contention_(cluster.contention_factor() > 1),
      norm_latency_(norm_latency_ns),
      ranks_(graph.nodes.size()),
      transfers_(graph.nodes.size()),
      gatherings_(graph.reductions.size() * (num_steps + 1)),
      optimizers_(num_steps + 1),
      flushes_(static_cast<size_t>(graph.num_flushes) * (num_steps + 1)),
      interfaces_(cluster.num_nodes()),
      step_start_ns_(num_steps + 1, kUnknown),
      is_first_stage_(graph.nodes.size(), false) {
  size_t num_nodes = 0;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    transfers_[r].resize(graph.nodes[r].size() * (num_steps + 1));
    ranks_[r].step = periodic || !graph.works_across_steps ? 0 : -1;
    num_nodes += graph.nodes[r].size();
  }
  if (ranks_[0].step == 0) step_start_ns_[0] = 0;
  events_.reserve(num_nodes * (num_steps + 1));
  for (int rank : graph.first_stage_ranks) is_first_stage_[rank] = true;
}

bool EventEngine::Active(const PlanNode& node, int step) const {
  if (periodic_ || !graph_.works_across_steps) return true;
  if (step == -1) return node.step_offset == 1;
  return step + 1 < num_steps_ || node.step_offset == 0;
}

absl::Status EventEngine::Run() {
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) Wake(r, 0);
  while (!alarms_.empty()) {
    const Alarm alarm = alarms_.top();
    alarms_.pop();
    if (alarm.kind != AlarmKind::kRank) {
      UpdateContention(alarm);
      continue;
    }
    RankState& state = ranks_[alarm.rank];
    if (alarm.version != state.version) continue;
    if (state.running >= 0) {
      events_[state.running].event.end_ns = alarm.time;
      state.running = -1;
    }
    Advance(alarm.rank, alarm.time);
  }
  std::string waiting;
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    if (ranks_[r].done) continue;
    absl::StrAppend(&waiting, waiting.empty() ? "" : ", ", "rank ", r, " at instruction ",
                    ranks_[r].next, " of step ", ranks_[r].step);
  }
  if (waiting.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("the simulated plan waits for ever: ", waiting));
}

void EventEngine::Wake(int rank, Nanos now) {
  ranks_[rank].waiting = false;
  alarms_.push({now, AlarmKind::kRank, rank, ranks_[rank].version});
}

void EventEngine::Advance(int rank, Nanos now) {
  while (Step(rank, now)) {
  }
}

void EventEngine::FinishStep(int rank, Nanos now) {
  RankState& state = ranks_[rank];
  state.next = 0;
  ++state.step;
  if (is_first_stage_[rank]) {
    Nanos& start = step_start_ns_[state.step];
    if (start == kUnknown || now < start) start = now;
  }
  state.done = state.step == num_steps_;
}

// Handles one instruction; false if the rank must be woken before it can go on.
bool EventEngine::Step(int rank, Nanos now) {
  RankState& state = ranks_[rank];
  if (state.done) return false;
  const std::vector<PlanNode>& nodes = graph_.nodes[rank];
  if (state.next == static_cast<int>(nodes.size())) {
    FinishStep(rank, now);
    return true;
  }
  const PlanNode& node = nodes[state.next];
  if (!Active(node, state.step)) {
    ++state.next;
    return true;
  }
  switch (node.kind) {
    case NodeKind::kSend:
    case NodeKind::kRecv:
      Post(rank, state.next++, now);
      return true;
    case NodeKind::kCompute:
      return Compute(rank, node, now);
    case NodeKind::kReduce:
      return Reduce(rank, node, now);
    case NodeKind::kOptimizer:
      return Optimize(rank, node, now);
    case NodeKind::kFlush:
      return Flush(rank, node, now);
  }
  return false;
}

// When everything that the instruction reads is there; false if that is not known yet.
bool EventEngine::ReadyAt(int rank, const PlanNode& node, Nanos now, Moment* ready) {
  RankState& state = ranks_[rank];
  *ready = {now, state.last_event};
  for (int w = node.waits_begin; w < node.waits_end; ++w) {
    const PlanWait& wait = graph_.waits[rank][w];
    const int step = state.step - (wait.previous_step ? 1 : 0);
    if (periodic_ && step < 0) continue;
    const Transfer& transfer = TransferAt(rank, wait.recv, step);
    if (transfer.arrival_ns == kUnknown) {
      state.waiting = true;
      return false;
    }
    Later({transfer.arrival_ns, transfer.event}, ready);
  }
  return true;
}

bool EventEngine::Compute(int rank, const PlanNode& node, Nanos now) {
  Moment ready;
  if (ReadyAt(rank, node, now, &ready)) {
    Start(rank, ranks_[rank].next++, ready, node.duration);
  }
  return false;
}

bool EventEngine::Optimize(int rank, const PlanNode& node, Nanos now) {
  RankState& state = ranks_[rank];
  if (state.open_reductions > 0) {
    state.waiting = true;
    return false;
  }
  Moment arrival{now, state.last_event};
  Later(state.reductions_end, &arrival);
  if (!graph_.global_norm) {
    Start(rank, state.next++, arrival, node.duration);
    return false;
  }
  Gathering& gathering = optimizers_[StepSlot(state.step)];
  Later(arrival, &gathering.latest);
  if (gathering.latest.cause < 0) gathering.latest = arrival;
  return StartEverywhere(&gathering);
}

// Once the last rank has come, the instruction starts on all; the rank that asks goes on when
// woken.
bool EventEngine::StartEverywhere(Gathering* gathering) {
  if (++gathering->count < static_cast<int>(ranks_.size())) return false;
  const Moment start{gathering->latest.time + norm_latency_, gathering->latest.cause};
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
    const int instruction = ranks_[r].next++;
    Start(r, instruction, start, graph_.nodes[r][instruction].duration);
  }
  return false;
}

bool EventEngine::Flush(int rank, const PlanNode& node, Nanos now) {
  Moment arrival;
  if (!ReadyAt(rank, node, now, &arrival)) return false;
  Gathering& gathering =
      flushes_[static_cast<size_t>(StepSlot(ranks_[rank].step)) * graph_.num_flushes + node.flush];
  Later(arrival, &gathering.latest);
  if (gathering.latest.cause < 0) gathering.latest = arrival;
  return StartEverywhere(&gathering);
}

bool EventEngine::Reduce(int rank, const PlanNode& node, Nanos now) {
  RankState& state = ranks_[rank];
  const Reduction& reduction = graph_.reductions[node.reduction];
  Gathering& gathering =
      gatherings_[static_cast<size_t>(StepSlot(state.step)) * graph_.reductions.size() +
                  node.reduction];
  const Moment arrival{now, state.last_event};
  if (gathering.count == 0) gathering.latest = arrival;
  Later(arrival, &gathering.latest);
  const bool complete = ++gathering.count == reduction.num_ranks;
  if (!cluster_.collectives_use_compute()) {
    ++state.open_reductions;
    ++state.next;
    if (complete) StartReduction(state.step, node, gathering);
    return true;
  }
  if (complete) {
    for (const auto& [member, instruction] : reduction.members) {
      ++ranks_[member].next;
      Start(member, instruction, gathering.latest, node.duration);
    }
  }
  return false;
}

// On the streams of their own.
void EventEngine::StartReduction(int step, const PlanNode& node, const Gathering& gathering) {
  const Reduction& reduction = graph_.reductions[node.reduction];
  Moment start = gathering.latest;
  for (const auto& member : reduction.members) Later(ranks_[member.first].collective_free, &start);
  const Nanos end = start.time + node.duration;
  for (const auto& [member, instruction] : reduction.members) {
    RankState& state = ranks_[member];
    const int event =
        AddEvent({member, TraceEvent::COLLECTIVE, step, instruction, start.time, end}, start.cause);
    state.collective_free = {end, event};
    Later({end, event}, &state.reductions_end);
    Communicates(member, start.time, end);
    --state.open_reductions;
    if (state.waiting) Wake(member, gathering.latest.time);
  }
}

void EventEngine::Start(int rank, int instruction, const Moment& at, Nanos duration) {
  RankState& state = ranks_[rank];
  const int event = AddEvent(
      {rank, TraceEvent::COMPUTE, state.step, instruction, at.time, at.time + duration}, at.cause);
  state.last_event = event;
  if (!contention_) {
    Wake(rank, at.time + duration);
    return;
  }
  state.running = event;
  state.remaining_ns = static_cast<double>(duration);
  state.updated_ns = at.time;
  Reschedule(rank, at.time);
}

void EventEngine::Post(int rank, int instruction, Nanos now) {
  RankState& state = ranks_[rank];
  const PlanNode& node = graph_.nodes[rank][instruction];
  Transfer& own = TransferAt(rank, instruction, state.step);
  own.posted_ns = now;
  own.cause = state.last_event;
  if (TransferAt(node.peer, node.match, state.step).posted_ns == kUnknown) return;
  if (node.kind == NodeKind::kSend) {
    StartTransfer(rank, instruction, node.peer, node.match, state.step, now);
  } else {
    StartTransfer(node.peer, node.match, rank, instruction, state.step, now);
  }
}

void EventEngine::StartTransfer(int from, int send, int to, int recv, int step, Nanos now) {
  const Transfer& sent = TransferAt(from, send, step);
  Transfer& received = TransferAt(to, recv, step);
  Moment start{sent.posted_ns, sent.cause};
  Later({received.posted_ns, received.cause}, &start);
  const int from_node = from / cluster_.devices_per_node();
  const int to_node = to / cluster_.devices_per_node();
  Later(ranks_[from].send_free, &start);
  Later(ranks_[to].recv_free, &start);
  if (from_node != to_node) {
    Later(interfaces_[from_node].first, &start);
    Later(interfaces_[to_node].second, &start);
  }
  const Nanos end = start.time + graph_.nodes[from][send].duration;
  AddEvent({from, TraceEvent::SEND_STREAM, step, send, start.time, end}, start.cause);
  const int event =
      AddEvent({to, TraceEvent::RECV_STREAM, step, recv, start.time, end}, start.cause);
  const Moment free{end, event};
  ranks_[from].send_free = free;
  ranks_[to].recv_free = free;
  if (from_node != to_node) {
    interfaces_[from_node].first = free;
    interfaces_[to_node].second = free;
  }
  received.arrival_ns = end;
  received.event = event;
  Communicates(from, start.time, end);
  Communicates(to, start.time, end);
  if (ranks_[to].waiting) Wake(to, now);
}

int EventEngine::AddEvent(const StreamEvent& event, int cause) {
  events_.push_back({event, cause});
  return static_cast<int>(events_.size()) - 1;
}

void EventEngine::Communicates(int rank, Nanos start, Nanos end) {
  if (!contention_ || start == end) return;
  alarms_.push({start, AlarmKind::kTransferStart, rank, 0});
  alarms_.push({end, AlarmKind::kTransferEnd, rank, 0});
}

void EventEngine::UpdateContention(const Alarm& alarm) {
  RankState& state = ranks_[alarm.rank];
  if (state.running >= 0 && alarm.time > state.updated_ns) {
    const double elapsed = static_cast<double>(alarm.time - state.updated_ns);
    const double factor = state.transfers > 0 ? cluster_.contention_factor() : 1;
    state.remaining_ns = std::max(0.0, state.remaining_ns - elapsed / factor);
    state.updated_ns = alarm.time;
  }
  state.transfers += alarm.kind == AlarmKind::kTransferStart ? 1 : -1;
  if (state.running >= 0) Reschedule(alarm.rank, std::max(alarm.time, state.updated_ns));
}

// The end of what runs, if nothing changes.
void EventEngine::Reschedule(int rank, Nanos now) {
  RankState& state = ranks_[rank];
  const double factor = state.transfers > 0 ? cluster_.contention_factor() : 1;
  const Nanos end = now + static_cast<Nanos>(std::ceil(state.remaining_ns * factor));
  events_[state.running].event.end_ns = end;
  ++state.version;
  alarms_.push({end, AlarmKind::kRank, rank, state.version});
}

}  // namespace dpipe
