#include "core/schedule/rendezvous.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

using MatchTable = std::vector<std::vector<int>>;

std::string Where(int rank, int index, const Instruction& instruction) {
  return absl::StrCat("rank ", rank, ", instruction ", index, " (",
                      Instruction::Kind_Name(instruction.kind()), ")");
}

// The field in which a SEND and a RECV contradict each other, with both values; empty if in none.
std::string Difference(const Instruction& send, const Instruction& recv) {
  const auto differs = [](const char* field, int64_t sent, int64_t received) {
    return absl::StrCat(field, " ", sent, " is sent and ", received, " is received");
  };
  if (send.payload() != recv.payload()) {
    return absl::StrCat("payload ", Instruction::Payload_Name(send.payload()), " is sent and ",
                        Instruction::Payload_Name(recv.payload()), " is received");
  }
  const std::pair<const char*, std::pair<int64_t, int64_t>> fields[] = {
      {"stage", {send.stage(), recv.peer_stage()}},
      {"peer_stage", {send.peer_stage(), recv.stage()}},
      {"component", {send.component(), recv.component()}},
      {"micro_batch", {send.micro_batch(), recv.micro_batch()}},
      {"samples.begin", {send.samples().begin(), recv.samples().begin()}},
      {"samples.end", {send.samples().end(), recv.samples().end()}},
      {"bytes", {send.bytes(), recv.bytes()}},
      {"step_offset", {send.step_offset(), recv.step_offset()}}};
  for (const auto& [field, values] : fields) {
    if (values.first != values.second) return differs(field, values.first, values.second);
  }
  return "";
}

enum class Part { kPrologue, kSteady, kLast };

const char* NameOf(Part part) {
  if (part == Part::kPrologue) return "prologue";
  return part == Part::kSteady ? "steady step" : "last step";
}

bool IsActive(Part part, const Instruction& instruction) {
  if (part == Part::kSteady) return true;
  return (instruction.step_offset() == 1) == (part == Part::kPrologue);
}

enum Way { kUp, kDown };  // to a higher rank, to a lower one

Way WayOf(int rank, const Instruction& message) {
  return (message.kind() == Instruction::SEND) == (rank < message.peer()) ? kUp : kDown;
}

// By instruction: of a message, its group among those of its run and way.
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

// Whether any run is posted in more than one group.
bool DividesRuns(const Plan& plan, Part part) {
  for (int r = 0; r < plan.devices_size(); ++r) {
    const std::vector<int> groups = GroupsOf(plan.devices(r), r, part);
    if (std::any_of(groups.begin(), groups.end(), [](int group) { return group > 0; })) return true;
  }
  return false;
}

// How runs of messages are posted.
enum class Runs {
  kInGroups,  // as rendezvous.h has it
  kAtOnce,    // whatever the order in them
};

// By rank and instruction: when both sides of a message were posted, the same on both.
using MatchTimes = std::vector<std::vector<std::pair<int, int>>>;

// Runs one part of a plan under blocking rendezvous.
class Progress {
 public:
  Progress(const Plan& plan, const MatchTable& match, Part part, Runs runs = Runs::kInGroups)
      : plan_(plan), match_(match), part_(part), ranks_(plan.devices_size()) {
    for (int r = 0; r < plan.devices_size(); ++r) all_ranks_.push_back(r);
    // Of the first stage with the same layers of the same component, which names the collective.
    std::map<std::tuple<int, int, int>, int> first;
    members_.resize(plan.stages_size());
    for (int s = 0; s < plan.stages_size(); ++s) {
      const Stage& stage = plan.stages(s);
      first_stage_.push_back(first
                                 .emplace(std::make_tuple(stage.component(), stage.layers().begin(),
                                                          stage.layers().end()),
                                          s)
                                 .first->second);
      if (stage.forward_only()) continue;  // its weights and ranks are those of its second lap
      std::vector<int>& members = members_[first_stage_.back()];
      members.insert(members.end(), stage.ranks().begin(), stage.ranks().end());
    }
    for (int r = 0; r < plan.devices_size(); ++r) {
      const int size = plan.devices(r).instructions_size();
      groups_.push_back(runs == Runs::kInGroups ? GroupsOf(plan.devices(r), r, part)
                                                : std::vector<int>(size, 0));
      if (runs == Runs::kAtOnce) times_.emplace_back(size);
    }
  }

  // After Run.
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
                                                     Where(r, at, list[at]), " waits for ever",
                                                     WaitsFor(list[at])));
    }
    return absl::OkStatus();
  }

 private:
  struct RankState {
    int next = 0;          // the first instruction that is not complete
    int run_end = 0;       // of the run of messages that begins there, if it has been reached
    int group[2] = {};     // of the run, by way: the last that is posted
    bool arrived = false;  // at the collective that is next
    bool queued = false;
    std::map<int, int> reductions;  // done, by stage
    int flushes = 0;                // done
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

  // Completes the next instruction or group; false if it has to wait or there is none.
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
      const int first = first_stage_[instruction.stage()];
      int& ordinal = state.reductions[first];
      if (!Collective({first, ordinal}, members_[first], rank)) return false;
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

  // The maximal run of active messages from `next` on.
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
      int open[2] = {INT_MAX, INT_MAX};  // the first group that is not through
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

  // Of the messages whose other side is there when a run is posted.
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
  std::vector<RankState> ranks_;
  std::deque<int> queue_;
  std::map<std::pair<int, int>, Arrivals> arrivals_;
  std::vector<int> first_stage_;           // by stage: of those whose gradients are summed together
  std::vector<std::vector<int>> members_;  // by first stage: ranks
  std::vector<int> all_ranks_;
  std::vector<std::vector<int>> groups_;  // by rank and instruction
  int clock_ = 0;                         // runs that have been posted
  MatchTimes times_;
};

// Messages of one kind between two ranks, in the order of their list.
using Queues = std::map<std::pair<int, int>, std::vector<int>>;  // (from, to)

absl::Status Collect(const Plan& plan, Queues* sends, Queues* recvs) {
  for (int r = 0; r < plan.devices_size(); ++r) {
    const auto& list = plan.devices(r).instructions();
    for (int i = 0; i < list.size(); ++i) {
      if (!IsMessage(list[i])) continue;
      const int peer = list[i].peer();
      if (peer < 0 || peer >= plan.devices_size() || peer == r) {
        return absl::InvalidArgumentError(absl::StrCat(
            Where(r, i, list[i]), ": peer ", peer, " is no other rank of ", plan.devices_size()));
      }
      if (list[i].kind() == Instruction::SEND) {
        (*sends)[{r, peer}].push_back(i);
      } else {
        (*recvs)[{peer, r}].push_back(i);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status MatchLink(const Plan& plan, std::pair<int, int> link, const std::vector<int>& sends,
                       const std::vector<int>& recvs, MatchTable* match) {
  const auto& from = plan.devices(link.first).instructions();
  const auto& to = plan.devices(link.second).instructions();
  for (size_t k = 0; k < sends.size() && k < recvs.size(); ++k) {
    const std::string difference = Difference(from[sends[k]], to[recvs[k]]);
    if (!difference.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(link.first, sends[k], from[sends[k]]), " meets ",
                       Where(link.second, recvs[k], to[recvs[k]]), ": ", difference));
    }
    (*match)[link.first][sends[k]] = recvs[k];
    (*match)[link.second][recvs[k]] = sends[k];
  }
  if (sends.size() == recvs.size()) return absl::OkStatus();
  const bool more_sends = sends.size() > recvs.size();
  const int rank = more_sends ? link.first : link.second;
  const int index = more_sends ? sends[recvs.size()] : recvs[sends.size()];
  return absl::InvalidArgumentError(
      absl::StrCat(Where(rank, index, plan.devices(rank).instructions(index)),
                   " has no counterpart: rank ", link.first, " sends ", sends.size(),
                   " messages to rank ", link.second, ", which receives ", recvs.size()));
}

// Without work for the next step there is no prologue, and the last step is like the others.
std::vector<Part> PartsOf(const Plan& plan) {
  for (const DeviceProgram& program : plan.devices()) {
    for (const Instruction& i : program.instructions()) {
      if (i.step_offset() != 0) return {Part::kSteady, Part::kPrologue, Part::kLast};
    }
  }
  return {Part::kSteady};
}

}  // namespace

absl::StatusOr<std::vector<std::vector<int>>> MatchMessages(const Plan& plan) {
  Queues sends, recvs;
  DPIPE_RETURN_IF_ERROR(Collect(plan, &sends, &recvs));
  MatchTable match(plan.devices_size());
  for (int r = 0; r < plan.devices_size(); ++r) {
    match[r].assign(plan.devices(r).instructions_size(), -1);
  }
  for (const auto& [link, queue] : sends) {
    DPIPE_RETURN_IF_ERROR(MatchLink(plan, link, queue, recvs[link], &match));
  }
  for (const auto& [link, queue] : recvs) {
    if (sends.count(link) > 0) continue;
    DPIPE_RETURN_IF_ERROR(MatchLink(plan, link, {}, queue, &match));
  }
  return match;
}

absl::Status CheckRendezvous(const Plan& plan) {
  DPIPE_ASSIGN_OR_RETURN(const MatchTable match, MatchMessages(plan));
  for (Part part : PartsOf(plan)) DPIPE_RETURN_IF_ERROR(Progress(plan, match, part).Run());
  return absl::OkStatus();
}

// In the order of their times no message waits in a circle, however few a group has: take the first
// one that is not through. Those before it in its groups' queues have earlier times, as a run is
// through before the next one is posted. That holds for the parts too, where some are left out.
void OrderMessages(Plan* plan) {
  std::vector<Part> parts;
  for (Part part : PartsOf(*plan)) {
    if (DividesRuns(*plan, part)) parts.push_back(part);
  }
  if (parts.empty()) return;
  const absl::StatusOr<MatchTable> match = MatchMessages(*plan);
  if (!match.ok()) return;
  bool waits_in_circles = false;
  for (Part part : parts) waits_in_circles |= !Progress(*plan, *match, part).Run().ok();
  if (!waits_in_circles) return;
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
