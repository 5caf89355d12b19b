#include "core/schedule/lowering/weave.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/messages/match_messages.h"
#include "core/schedule/messages/rendezvous.h"
#include "core/schedule/placement/frozen_exchange.h"
#include "core/schedule/placement/weight_groups.h"

namespace dpipe {
namespace {

// A message between ranks that carries frozen values or outputs.
struct FrozenTransfer {
  Instruction::Payload payload = Instruction::FROZEN_VALUES;
  int component = 0;
  int layer = 0;  // the next one, of values
  SampleRange samples;
  int from = 0;
  int to = 0;
};

Instruction FrozenInstruction(Instruction::Kind kind, int component, SampleRange samples) {
  Instruction instruction;
  instruction.set_kind(kind);
  instruction.set_stage(-1);
  instruction.set_component(component);
  instruction.set_micro_batch(-1);
  instruction.set_peer(-1);
  instruction.set_peer_stage(-1);
  instruction.mutable_samples()->set_begin(samples.begin);
  instruction.mutable_samples()->set_end(samples.end);
  instruction.set_step_offset(1);
  return instruction;
}

void SetLayers(LayerRange layers, Instruction* instruction) {
  instruction->mutable_layers()->set_begin(layers.begin);
  instruction->mutable_layers()->set_end(layers.end);
}

// Follows every sample through the phases, and collects the messages that it needs.
class Transfers {
 public:
  Transfers(const std::vector<FrozenPhase>& phases, int global_batch, const CostModel& cost)
      : cost_(cost), places_(cost.num_components(), std::vector<Place>(global_batch)) {
    after_phase_.resize(phases.size());
    for (size_t p = 0; p < phases.size() && status_.ok(); ++p) {
      for (const FrozenPiece& piece : phases[p]) {
        status_ = Visit(piece);
        if (!status_.ok()) break;
      }
      for (const FrozenPiece& piece : phases[p]) Advance(static_cast<int>(p), piece);
    }
  }

  const absl::Status& status() const { return status_; }
  // Messages that can be sent once the phase has run, in the order of the phases that need them.
  const std::vector<FrozenTransfer>& After(size_t phase) const { return after_phase_[phase]; }

  // Returns the ranks that compute outputs.
  std::vector<FrozenOutput> Owners() const {
    std::vector<FrozenOutput> owners;
    for (int c = 0; c < static_cast<int>(places_.size()); ++c) {
      for (int n = 0; n < static_cast<int>(places_[c].size()); ++n) {
        if (!IsDone(c, n)) continue;
        owners.push_back({c, places_[c][n].rank, {n, n + 1}, /*step_offset=*/1});
      }
    }
    return owners;
  }
  // True if the rank has received the output already.
  bool IsDelivered(int component, int sample, int rank) const {
    return delivered_.count({component, sample, rank}) > 0;
  }

 private:
  struct Place {
    int rank = -1;
    int next = 0;    // layer
    int phase = -1;  // that ran the layer before it
  };

  bool IsDone(int component, int sample) const {
    return places_[component][sample].next == cost_.num_layers(component);
  }

  // Adds the messages that the piece waits for.
  absl::Status Visit(const FrozenPiece& piece) {
    const auto move = [&](Instruction::Payload payload, int component, int layer, int n) {
      const Place& place = places_[component][n];
      Add({payload, component, layer, {n, n + 1}, place.rank, piece.rank}, place.phase);
    };
    for (int n = piece.samples.begin; n < piece.samples.end; ++n) {
      const Place& place = places_[piece.component][n];
      if (place.next != piece.layers.begin) {
        return absl::InvalidArgumentError(
            absl::StrCat("frozen component ", piece.component, ", sample ", n, ": layers ",
                         piece.layers.ToString(), " do not begin with the next one, ", place.next));
      }
      if (place.next > 0 && place.rank != piece.rank) {
        move(Instruction::FROZEN_VALUES, piece.component, place.next, n);
      }
    }
    for (int source : cost_.SourcesOf(piece.component, piece.layers)) {
      for (int n = piece.samples.begin; n < piece.samples.end; ++n) {
        if (!IsDone(source, n)) {
          return absl::InvalidArgumentError(absl::StrCat("frozen component ", piece.component,
                                                         ", sample ", n, ": its source, component ",
                                                         source, ", has not run"));
        }
        if (places_[source][n].rank == piece.rank) continue;
        if (!delivered_.insert({source, n, piece.rank}).second) continue;
        move(Instruction::FROZEN_OUTPUT, source, 0, n);
      }
    }
    return absl::OkStatus();
  }

  void Advance(int phase, const FrozenPiece& piece) {
    for (int n = piece.samples.begin; n < piece.samples.end; ++n) {
      places_[piece.component][n] = {piece.rank, piece.layers.end, phase};
    }
  }

  // Joins it to the last message if that ends where it begins.
  void Add(const FrozenTransfer& one, int phase) {
    std::vector<FrozenTransfer>& list = after_phase_[phase];
    if (!list.empty()) {
      FrozenTransfer& last = list.back();
      const auto key = [](const FrozenTransfer& t) {
        return std::make_tuple(t.payload, t.component, t.layer, t.from, t.to);
      };
      if (key(last) == key(one) && last.samples.end == one.samples.begin) {
        last.samples.end = one.samples.end;
        return;
      }
    }
    list.push_back(one);
  }

  const CostModel& cost_;
  absl::Status status_;
  std::vector<std::vector<Place>> places_;         // by component and sample
  std::set<std::tuple<int, int, int>> delivered_;  // component, sample, rank
  std::vector<std::vector<FrozenTransfer>> after_phase_;
};

// Builds the lists of all ranks in one order.
class Weaver {
 public:
  Weaver(const Plan& unfilled, const std::vector<FrozenPhase>& phases, const Transfers& transfers,
         const WeaveOptions& options, const CostModel& cost)
      : unfilled_(unfilled),
        phases_(phases),
        transfers_(transfers),
        options_(options),
        cost_(cost),
        weights_(unfilled),
        ranks_(unfilled.devices_size()) {
    for (int r = 0; r < unfilled.devices_size(); ++r) {
      ranks_[r].last_phase.assign(unfilled.devices(r).instructions_size(), -1);
    }
    for (size_t p = 0; p < phases.size(); ++p) {
      for (const FrozenPiece& piece : phases[p]) {
        int& last = ranks_[piece.rank].last_phase[piece.before];
        last = std::max(last, static_cast<int>(p));
      }
    }
  }

  absl::StatusOr<Plan> Run() {
    DPIPE_ASSIGN_OR_RETURN(match_, MatchMessages(unfilled_));
    plan_ = unfilled_;
    for (DeviceProgram& program : *plan_.mutable_devices()) program.clear_instructions();
    for (int r = 0; r < plan_.devices_size(); ++r) Arrive(r);
    while (!ready_.empty()) {
      const auto [start_ns, rank] = ready_.top();
      ready_.pop();
      EmitNext(rank);
    }
    for (int r = 0; r < plan_.devices_size(); ++r) {
      const auto& list = unfilled_.devices(r).instructions();
      if (ranks_[r].next + 1 == list.size()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the unfilled plan deadlocks at ", PlaceOf(r, ranks_[r].next, list[ranks_[r].next])));
    }
    EmitPhases(static_cast<int>(phases_.size()) - 1);
    Finish();
    OrderMessages(&plan_);
    return std::move(plan_);
  }

 private:
  struct RankState {
    int next = 0;     // the first instruction that is not emitted
    int run_end = 0;  // the end of the run of messages at `next`, once that has been reached
    std::vector<bool> emitted;  // of the run, from its beginning
    int run_begin = 0;
    std::vector<int> last_phase;  // by instruction: the last phase that precedes it; -1: none
  };

  const Instruction& At(int rank, int i) const { return unfilled_.devices(rank).instructions(i); }
  void Append(int rank, const Instruction& instruction) {
    *plan_.mutable_devices(rank)->add_instructions() = instruction;
  }
  static bool IsCollective(Instruction::Kind kind) {
    return kind == Instruction::REDUCE_GRADS || kind == Instruction::GATHER_PARAMS;
  }

  // Called when a rank has reached its next instruction. The last one, OPTIMIZER_STEP, waits for
  // Finish.
  void Arrive(int rank) {
    RankState& state = ranks_[rank];
    const int count = unfilled_.devices(rank).instructions_size();
    if (state.next + 1 >= count) return;
    const Instruction& next = At(rank, state.next);
    if (IsMessage(next)) return ArriveAtRun(rank, count);
    Nanos start_ns = options_.start_ns[rank][state.next];
    if (IsCollective(next.kind())) {
      // All members run it at once; the last one to arrive stands for all.
      std::vector<std::pair<int, Nanos>>& members = waiting_[weights_.OfStage(next.stage())];
      members.emplace_back(rank, start_ns);
      if (members.size() < weights_.group(weights_.OfStage(next.stage())).ranks.size()) return;
      for (const auto& member : members) start_ns = std::max(start_ns, member.second);
    }
    ready_.push({start_ns, rank});
  }

  void EmitNext(int rank) {
    const Instruction next = At(rank, ranks_[rank].next);
    std::vector<int> members = {rank};
    if (IsCollective(next.kind())) {
      members.clear();
      for (const auto& member : waiting_[weights_.OfStage(next.stage())]) {
        members.push_back(member.first);
      }
      waiting_[weights_.OfStage(next.stage())].clear();
    }
    for (int member : members) {
      RankState& state = ranks_[member];
      EmitPhases(state.last_phase[state.next]);
    }
    for (int member : members) {
      RankState& state = ranks_[member];
      Append(member, At(member, state.next++));
    }
    for (int member : members) Arrive(member);
  }

  // Messages are emitted as soon as both ends are posted.
  void ArriveAtRun(int rank, int count) {
    RankState& state = ranks_[rank];
    state.run_begin = state.run_end = state.next;
    while (state.run_end < count && IsMessage(At(rank, state.run_end))) ++state.run_end;
    state.emitted.assign(state.run_end - state.run_begin, false);
    std::vector<int> through;
    for (int i = state.run_begin; i < state.run_end; ++i) {
      const int peer = At(rank, i).peer(), other = match_[rank][i];
      RankState& theirs = ranks_[peer];
      if (other < theirs.next || other >= theirs.run_end || theirs.next != theirs.run_begin) {
        continue;
      }
      if (theirs.emitted[other - theirs.run_begin]) continue;
      theirs.emitted[other - theirs.run_begin] = state.emitted[i - state.run_begin] = true;
      Append(rank, At(rank, i));
      Append(peer, At(peer, other));
      if (IsThrough(theirs)) through.push_back(peer);
    }
    if (IsThrough(state)) through.push_back(rank);
    for (int r : through) Leave(r);
  }

  static bool IsThrough(const RankState& state) {
    return std::count(state.emitted.begin(), state.emitted.end(), false) == 0;
  }

  void Leave(int rank) {
    ranks_[rank].next = ranks_[rank].run_end;
    Arrive(rank);
  }

  // Emits all phases up to `last`, each followed by the messages that wait only for it.
  void EmitPhases(int last) {
    for (; next_phase_ <= last; ++next_phase_) {
      for (const FrozenPiece& piece : phases_[next_phase_]) {
        if (piece.layers.begin == 0) {
          Append(piece.rank,
                 FrozenInstruction(Instruction::LOAD_BATCH, piece.component, piece.samples));
        }
        Instruction work =
            FrozenInstruction(Instruction::FROZEN_FORWARD, piece.component, piece.samples);
        SetLayers(piece.layers, &work);
        Append(piece.rank, work);
      }
      for (const FrozenTransfer& transfer : transfers_.After(next_phase_)) Emit(transfer);
    }
  }

  void Emit(const FrozenTransfer& transfer) {
    const bool moves = transfer.payload == Instruction::FROZEN_VALUES;
    Instruction message =
        FrozenInstruction(Instruction::SEND, transfer.component, transfer.samples);
    message.set_payload(transfer.payload);
    if (moves) SetLayers({transfer.layer, transfer.layer + 1}, &message);
    message.set_bytes((moves ? cost_.MovedBytesPerSample(transfer.component, transfer.layer)
                             : cost_.OutputBytesPerSample(transfer.component)) *
                      transfer.samples.size());
    message.set_peer(transfer.to);
    Append(transfer.from, message);
    message.set_kind(Instruction::RECV);
    message.set_peer(transfer.from);
    Append(transfer.to, message);
  }

  // Adds the exchange of the outputs that their readers do not have, and the optimizer steps.
  void Finish() {
    std::vector<FrozenOutput> readers;
    for (int r = 0; r < unfilled_.devices_size(); ++r) {
      for (const Instruction& pass : unfilled_.devices(r).instructions()) {
        if (pass.kind() != Instruction::FORWARD) continue;
        const Stage& stage = unfilled_.stages(pass.stage());
        for (int source : cost_.SourcesOf(stage.component(), LayersIn(stage))) {
          for (int n = pass.samples().begin(); n < pass.samples().end(); ++n) {
            if (transfers_.IsDelivered(source, n, r)) continue;
            readers.push_back({source, r, {n, n + 1}, 0});
          }
        }
      }
    }
    const std::vector<FrozenMessage> exchange = FrozenExchange(transfers_.Owners(), readers);
    const bool flushes = options_.flush_exchange && !exchange.empty();
    if (flushes) Flush();
    for (const FrozenMessage& message : exchange) {
      Emit({Instruction::FROZEN_OUTPUT, message.component, 0, message.samples, message.from,
            message.to});
    }
    if (flushes) Flush();
    for (int r = 0; r < unfilled_.devices_size(); ++r) {
      Append(r, At(r, unfilled_.devices(r).instructions_size() - 1));
    }
  }

  void Flush() {
    Instruction flush = FrozenInstruction(Instruction::FLUSH, -1, {});
    flush.clear_samples();
    for (int r = 0; r < unfilled_.devices_size(); ++r) Append(r, flush);
  }

  const Plan& unfilled_;
  const std::vector<FrozenPhase>& phases_;
  const Transfers& transfers_;
  const WeaveOptions& options_;
  const CostModel& cost_;
  const WeightGroups weights_;
  MatchTable match_;
  Plan plan_;
  std::vector<RankState> ranks_;
  std::map<int, std::vector<std::pair<int, Nanos>>>
      waiting_;                         // members that have arrived, by group
  using Ready = std::pair<Nanos, int>;  // start, rank
  std::priority_queue<Ready, std::vector<Ready>, std::greater<Ready>> ready_;
  int next_phase_ = 0;
};

}  // namespace

absl::StatusOr<Plan> WeaveFrozenWork(const Plan& unfilled, const std::vector<FrozenPhase>& phases,
                                     const WeaveOptions& options, const CostModel& cost) {
  const Transfers transfers(phases, unfilled.global_batch(), cost);
  DPIPE_RETURN_IF_ERROR(transfers.status());
  return Weaver(unfilled, phases, transfers, options, cost).Run();
}

}  // namespace dpipe
