#include "core/schedule/messages/rendezvous.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/placement/weight_groups.h"

namespace dpipe {
namespace {

enum class Part { kPrologue, kSteady, kLast };

const char* NameOf(Part part) {
  if (part == Part::kPrologue) return "prologue";
  return part == Part::kSteady ? "steady step" : "last step";
}

bool IsActive(Part part, const Instruction& instruction) {
  if (part == Part::kSteady) return true;
  return (instruction.step_offset() == 1) == (part == Part::kPrologue);
}

enum Way { kUp, kDown };  // to a higher or to a lower rank

Way WayOf(int rank, const Instruction& message) {
  return (message.kind() == Instruction::SEND) == (rank < message.peer()) ? kUp : kDown;
}

// Returns for each message the number of its group among those of its run and way; 0 for other
// instructions.
std::vector<int> GroupsOf(const DeviceProgram& program, int rank, Part part) {
  const auto& list = program.instructions();
  std::vector<int> groups(list.size(), 0);
  struct Group {
    int number = 0;
    std::vector<std::pair<Instruction::Kind, int>> links;
  };
  Group last[2];
  for (int i = 0; i < list.size(); ++i) {
    if (!IsActive(part, list[i])) continue;
    if (!IsMessage(list[i])) {
      for (Way way : {kUp, kDown}) {
        last[way].number = 0;
        last[way].links.clear();
      }
      continue;
    }
    Group& group = last[WayOf(rank, list[i])];
    const std::pair<Instruction::Kind, int> link(list[i].kind(), list[i].peer());
    if (std::find(group.links.begin(), group.links.end(), link) != group.links.end()) {
      ++group.number;
      group.links.clear();
    }
    group.links.push_back(link);
    groups[i] = group.number;
  }
  return groups;
}

// True if any run is posted in more than one group.
bool DividesRuns(const Plan& plan, Part part) {
  for (int r = 0; r < plan.devices_size(); ++r) {
    const std::vector<int> groups = GroupsOf(plan.devices(r), r, part);
    if (std::any_of(groups.begin(), groups.end(), [](int group) { return group > 0; })) return true;
  }
  return false;
}

// How runs of messages are posted.
enum class Runs {
  kInGroups,  // as described in rendezvous.h
  kAtOnce,    // each run as a whole, whatever its order
};

// By rank and instruction: when both sides of a message were posted; equal on both sides.
using MatchTimes = std::vector<std::vector<std::pair<int, int>>>;

// Runs one part of a plan under blocking rendezvous.
class Progress {
 public:
  Progress(const Plan& plan, const MatchTable& match, Part part, Runs runs = Runs::kInGroups)
      : plan_(plan), match_(match), part_(part), weights_(plan), ranks_(plan.devices_size()) {
    for (int r = 0; r < plan.devices_size(); ++r) all_ranks_.push_back(r);
    for (int r = 0; r < plan.devices_size(); ++r) {
      const int size = plan.devices(r).instructions_size();
      groups_.push_back(runs == Runs::kInGroups ? GroupsOf(plan.devices(r), r, part)
                                                : std::vector<int>(size, 0));
      if (runs == Runs::kAtOnce) times_.emplace_back(size);
    }
  }

  // Valid after Run with Runs::kAtOnce.
  const MatchTimes& times() const { return times_; }

  absl::Status Run() {
    for (int r = 0; r < plan_.devices_size(); ++r) Wake(r);
    while (!queue_.empty()) {
      const int rank = queue_.front();
      queue_.pop_front();
      ranks_[rank].queued = false;
      while (Advance(rank)) {
      }
    }
    for (int r = 0; r < plan_.devices_size(); ++r) {
      const int at = ranks_[r].next;
      const auto& list = plan_.devices(r).instructions();
      if (at == list.size()) continue;
      return absl::InvalidArgumentError(absl::StrCat("deadlock in the ", NameOf(part_), ": ",
                                                     PlaceOf(r, at, list[at]), " waits forever",
                                                     WaitsFor(list[at])));
    }
    return absl::OkStatus();
  }

 private:
  struct RankState {
    int next = 0;          // the first instruction that is not complete
    int run_end = 0;       // the end of the run of messages at `next`, if that has been reached
    int group[2] = {};     // by way: the last group of the run that has been posted
    bool arrived = false;  // at the collective that is next
    bool queued = false;
    std::map<int, int> reductions;  // completed, by weight group
    int flushes = 0;                // completed
  };
  struct Arrivals {
    int count = 0;
  };

  bool Active(const Instruction& instruction) const { return IsActive(part_, instruction); }

  void Wake(int rank) {
    if (ranks_[rank].queued) return;
    ranks_[rank].queued = true;
    queue_.push_back(rank);
  }

  static std::string WaitsFor(const Instruction& instruction) {
    if (!IsMessage(instruction)) return " for other ranks";
    return absl::StrCat(" for rank ", instruction.peer());
  }

  // Completes the next instruction or run. Returns false if it has to wait or there is none.
  bool Advance(int rank) {
    RankState& state = ranks_[rank];
    const auto& list = plan_.devices(rank).instructions();
    if (state.next == list.size()) return false;
    const Instruction& instruction = list[state.next];
    if (!Active(instruction)) {
      ++state.next;
      return true;
    }
    if (IsMessage(instruction)) return AdvanceGroup(rank);
    if (instruction.kind() == Instruction::REDUCE_GRADS ||
        instruction.kind() == Instruction::GATHER_PARAMS ||
        instruction.kind() == Instruction::SYNC_PARAMS) {
      const int group = weights_.OfStage(instruction.stage());
      int& ordinal = state.reductions[group];
      if (!Collective({group, ordinal}, weights_.group(group).ranks, rank)) return false;
      ++ordinal;
    } else if (instruction.kind() == Instruction::OPTIMIZER_STEP && plan_.global_norm()) {
      if (!Collective({-1, 0}, all_ranks_, rank)) return false;
    } else if (instruction.kind() == Instruction::FLUSH) {
      if (!Collective({-2, state.flushes}, all_ranks_, rank)) return false;
      ++state.flushes;
    }
    ++state.next;
    state.arrived = false;
    return true;
  }

  // True once every member has arrived.
  bool Collective(std::pair<int, int> key, const std::vector<int>& members, int rank) {
    Arrivals& arrivals = arrivals_[key];
    if (!ranks_[rank].arrived) {
      ranks_[rank].arrived = true;
      if (++arrivals.count == static_cast<int>(members.size())) {
        for (int member : members) Wake(member);
      }
    }
    return arrivals.count == static_cast<int>(members.size());
  }

  bool Posted(int rank, int i) const {
    const RankState& state = ranks_[rank];
    return i < state.next ||
           (i < state.run_end &&
            groups_[rank][i] <= state.group[WayOf(rank, plan_.devices(rank).instructions(i))]);
  }

  // Posts groups of the maximal run of active messages at `next`; true if the run is complete.
  bool AdvanceGroup(int rank) {
    RankState& state = ranks_[rank];
    const auto& list = plan_.devices(rank).instructions();
    if (state.run_end <= state.next) {
      state.run_end = state.next;
      while (state.run_end < list.size() &&
             (!Active(list[state.run_end]) || IsMessage(list[state.run_end]))) {
        ++state.run_end;
      }
      state.group[kUp] = state.group[kDown] = 0;
      if (!times_.empty()) NoteTimes(rank);
      WakePeers(rank);
    }
    bool through = true;
    while (true) {
      through = true;
      bool posts = false;
      int open[2] = {INT_MAX, INT_MAX};  // by way: the first group that is not complete
      ForMessages(rank, [&](int i, const Instruction& message) {
        const Way way = WayOf(rank, message);
        const int group = groups_[rank][i];
        if (group > state.group[way] || !Posted(message.peer(), match_[rank][i])) {
          open[way] = std::min(open[way], group);
          through = false;
        }
      });
      for (Way way : {kUp, kDown}) {
        if (open[way] == INT_MAX || open[way] <= state.group[way]) continue;
        state.group[way] = open[way];
        posts = true;
      }
      if (!posts) break;
      WakePeers(rank);
    }
    if (through) state.next = state.run_end;
    return through;
  }

  template <typename F>
  void ForMessages(int rank, const F& f) const {
    const auto& list = plan_.devices(rank).instructions();
    for (int i = ranks_[rank].next; i < ranks_[rank].run_end; ++i) {
      if (Active(list[i]) && IsMessage(list[i])) f(i, list[i]);
    }
  }

  // When a run is posted, records the time for messages whose other side has been posted already.
  void NoteTimes(int rank) {
    ++clock_;
    ForMessages(rank, [&](int i, const Instruction& message) {
      const int other = match_[rank][i];
      if (!Posted(message.peer(), other)) return;
      times_[rank][i] = times_[message.peer()][other] = {clock_, i};
    });
  }

  void WakePeers(int rank) {
    ForMessages(rank, [&](int i, const Instruction& message) { Wake(message.peer()); });
  }

  const Plan& plan_;
  const MatchTable& match_;
  const Part part_;
  const WeightGroups weights_;
  std::vector<RankState> ranks_;
  std::deque<int> queue_;
  std::map<std::pair<int, int>, Arrivals> arrivals_;
  std::vector<int> all_ranks_;
  std::vector<std::vector<int>> groups_;  // by rank and instruction
  int clock_ = 0;                         // the number of runs posted
  MatchTimes times_;
};

// A plan without work for the next step has no prologue, and its last step is like the others.
std::vector<Part> PartsOf(const Plan& plan) {
  for (const DeviceProgram& program : plan.devices()) {
    for (const Instruction& i : program.instructions()) {
      if (i.step_offset() != 0) return {Part::kSteady, Part::kPrologue, Part::kLast};
    }
  }
  return {Part::kSteady};
}

}  // namespace

absl::Status CheckRendezvous(const Plan& plan) {
  DPIPE_ASSIGN_OR_RETURN(const MatchTable match, MatchMessages(plan));
  for (Part part : PartsOf(plan)) DPIPE_RETURN_IF_ERROR(Progress(plan, match, part).Run());
  return absl::OkStatus();
}

// Proof that the order of match times has no circular wait, however small the groups: take the
// earliest message that is not complete. All messages before it in its groups' queues have earlier
// times, because a run completes before the next one is posted. The same holds for each part of the
// plan, in which some messages are left out.
void OrderMessages(Plan* plan) {
  std::vector<Part> parts;
  for (Part part : PartsOf(*plan)) {
    if (DividesRuns(*plan, part)) parts.push_back(part);
  }
  if (parts.empty()) return;
  const absl::StatusOr<MatchTable> match = MatchMessages(*plan);
  if (!match.ok()) return;
  bool has_circular_wait = false;
  for (Part part : parts) has_circular_wait |= !Progress(*plan, *match, part).Run().ok();
  if (!has_circular_wait) return;
  Progress at_once(*plan, *match, Part::kSteady, Runs::kAtOnce);
  if (!at_once.Run().ok()) return;
  for (int r = 0; r < plan->devices_size(); ++r) {
    auto& list = *plan->mutable_devices(r)->mutable_instructions();
    const std::vector<Instruction> old(list.begin(), list.end());
    std::vector<int> order(list.size());
    std::iota(order.begin(), order.end(), 0);
    for (int begin = 0; begin < list.size(); ++begin) {
      int end = begin;
      while (end < list.size() && IsMessage(old[end])) ++end;
      std::stable_sort(order.begin() + begin, order.begin() + end,
                       [&](int a, int b) { return at_once.times()[r][a] < at_once.times()[r][b]; });
      begin = end;
    }
    for (int i = 0; i < list.size(); ++i) *list.Mutable(i) = old[order[i]];
  }
}

}  // namespace dpipe
