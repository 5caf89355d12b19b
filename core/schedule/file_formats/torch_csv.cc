#include "core/schedule/file_formats/torch_csv.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedule/file_formats/torch_action.h"

namespace dpipe {
namespace {

using Type = TorchActionType;
using Rows = std::vector<std::vector<TorchAction>>;

absl::Status Bad(const TorchAction& at, const std::string& what) {
  return absl::InvalidArgumentError(TorchCellName(at) + what);
}

// "1SEND_F0".
std::string NameOf(int stage, Type type, int micro_batch) {
  return absl::StrCat(stage, TorchTypeName(type), micro_batch < 0 ? "" : absl::StrCat(micro_batch));
}

bool IsCompute(Type type) { return type <= Type::kWeightGrad; }
bool IsSend(Type type) { return type == Type::kSendForward || type == Type::kSendBackward; }
bool IsRecv(Type type) { return type == Type::kRecvForward || type == Type::kRecvBackward; }
bool IsWait(Type type) { return type == Type::kWaitForward || type == Type::kWaitBackward; }
bool ComputesWeightGrad(Type type) {
  return type == Type::kFullBackward || type == Type::kWeightGrad;
}

class Import {
 public:
  explicit Import(const Rows& rows) : rows_(rows) {}

  absl::Status Check();
  absl::StatusOr<Schedule> Make(const std::string& name) const;

 private:
  // (stage, type, micro-batch) identifies an action.
  using Key = std::tuple<int, Type, int>;

  const TorchAction* Find(int stage, Type type, int micro_batch) const {
    const auto found = actions_.find(Key(stage, type, micro_batch));
    return found == actions_.end() ? nullptr : found->second;
  }
  // Returns the input-gradient or the full backward pass.
  const TorchAction* FindGradient(int stage, int micro_batch) const {
    const TorchAction* full = Find(stage, Type::kFullBackward, micro_batch);
    return full != nullptr ? full : Find(stage, Type::kInputGrad, micro_batch);
  }
  // For two actions of one row. Compares addresses: the actions of an overlap share a column.
  bool IsBefore(const TorchAction& a, const TorchAction& b) const { return &a < &b; }
  bool CrossesRanks(int stage) const {  // true if it and the next stage are on different ranks
    return stage >= 0 && stage + 1 < num_stages_ && rank_of_[stage] != rank_of_[stage + 1];
  }

  absl::Status CheckStages();
  absl::Status CheckNumbering();
  absl::Status CheckPasses() const;
  absl::Status CheckPass(const TorchAction& action) const;
  absl::Status CheckMessages() const;
  absl::Status CheckSend(const TorchAction& send) const;
  absl::Status CheckRecv(const TorchAction& recv) const;
  absl::Status CheckWait(const TorchAction& wait) const;
  absl::Status CheckMessageOrder() const;
  absl::Status CheckSharding() const;
  absl::Status CheckRuns() const;

  const Rows& rows_;
  int num_stages_ = 0;
  int num_micro_batches_ = 0;
  std::vector<int> rank_of_;  // [stage]
  std::map<Key, const TorchAction*> actions_;
  bool has_messages_ = false, has_waits_ = false;
};

absl::Status Import::Check() {
  DPIPE_RETURN_IF_ERROR(CheckStages());
  DPIPE_RETURN_IF_ERROR(CheckNumbering());
  DPIPE_RETURN_IF_ERROR(CheckPasses());
  if (has_messages_ || has_waits_) DPIPE_RETURN_IF_ERROR(CheckMessages());
  DPIPE_RETURN_IF_ERROR(CheckSharding());
  return CheckRuns();
}

absl::Status Import::CheckStages() {
  std::map<int, const TorchAction*> first;
  for (const auto& row : rows_) {
    for (const TorchAction& action : row) {
      const auto [found, is_new] = first.emplace(action.stage, &action);
      if (!is_new && found->second->row != action.row) {
        const TorchAction& other = *found->second;
        return Bad(action,
                   absl::StrCat("stage ", action.stage, " is also on rank ", other.row, " (row ",
                                other.row + 1, ", column ", other.column + 1, ")"));
      }
    }
  }
  for (const auto& [stage, action] : first) {
    if (stage != num_stages_) {
      return Bad(*action, absl::StrCat("there is a stage ", stage, " but no stage ", num_stages_));
    }
    rank_of_.push_back(action->row);
    ++num_stages_;
  }
  return absl::OkStatus();
}

// Collects the actions; rejects duplicates and gaps.
absl::Status Import::CheckNumbering() {
  const TorchAction* highest = nullptr;
  for (const auto& row : rows_) {
    for (const TorchAction& action : row) {
      has_messages_ |= IsSend(action.type) || IsRecv(action.type);
      has_waits_ |= IsWait(action.type);
      if (highest == nullptr || action.micro_batch > highest->micro_batch) highest = &action;
      if (action.type == Type::kUnshard || action.type == Type::kReshard) continue;
      const auto [found, is_new] =
          actions_.emplace(Key(action.stage, action.type, action.micro_batch), &action);
      if (is_new) continue;
      return Bad(action, absl::StrCat("the same action is in column ", found->second->column + 1));
    }
  }
  num_micro_batches_ = highest->micro_batch + 1;
  if (num_micro_batches_ == 0) return Bad(*highest, "the file has no passes");
  // Each iteration finds an action or ends in an error, so there are no more than actions.
  for (int s = 0; s < num_stages_; ++s) {
    for (int m = 0; m < num_micro_batches_; ++m) {
      if (Find(s, Type::kForward, m) != nullptr) continue;
      return Bad(*highest, absl::StrCat("there are micro-batches up to ", num_micro_batches_ - 1,
                                        ", but no ", NameOf(s, Type::kForward, m)));
    }
  }
  return absl::OkStatus();
}

absl::Status Import::CheckPass(const TorchAction& action) const {
  const int s = action.stage, m = action.micro_batch;
  if (action.type == Type::kForward) {
    if (FindGradient(s, m) == nullptr) {
      return Bad(action, absl::StrCat("there is no backward pass, neither ",
                                      NameOf(s, Type::kFullBackward, m), " nor ",
                                      NameOf(s, Type::kInputGrad, m)));
    }
    return absl::OkStatus();
  }
  if (action.type == Type::kWeightGrad) {
    const TorchAction* input = Find(s, Type::kInputGrad, m);
    if (input == nullptr || !IsBefore(*input, action)) {
      return Bad(action,
                 absl::StrCat("there is no ", NameOf(s, Type::kInputGrad, m), " before it"));
    }
    return absl::OkStatus();
  }
  if (!IsBefore(*Find(s, Type::kForward, m), action)) {
    return Bad(action, absl::StrCat("there is no ", NameOf(s, Type::kForward, m), " before it"));
  }
  if (action.type == Type::kFullBackward && Find(s, Type::kInputGrad, m) != nullptr) {
    return Bad(action, absl::StrCat("there is also ", NameOf(s, Type::kInputGrad, m)));
  }
  if (action.type == Type::kInputGrad && Find(s, Type::kWeightGrad, m) == nullptr) {
    return Bad(action, absl::StrCat("there is no ", NameOf(s, Type::kWeightGrad, m)));
  }
  return absl::OkStatus();
}

absl::Status Import::CheckPasses() const {
  std::vector<int> next_weight(num_stages_, 0);
  for (const auto& row : rows_) {
    for (const TorchAction& action : row) {
      if (!IsCompute(action.type)) continue;
      DPIPE_RETURN_IF_ERROR(CheckPass(action));
      if (!ComputesWeightGrad(action.type)) continue;
      int& next = next_weight[action.stage];
      if (action.micro_batch != next) {
        return Bad(action,
                   absl::StrCat("weight gradients of a stage must come in micro-batch order, but ",
                                next, " is next"));
      }
      ++next;
    }
  }
  return absl::OkStatus();
}

absl::Status Import::CheckSend(const TorchAction& send) const {
  const int s = send.stage, m = send.micro_batch;
  const bool forward = send.type == Type::kSendForward;
  if (!CrossesRanks(forward ? s : s - 1)) {
    return Bad(send, absl::StrCat("there is no stage ", forward ? s + 1 : s - 1,
                                  " on another rank to send to"));
  }
  const TorchAction* pass = forward ? Find(s, Type::kForward, m) : FindGradient(s, m);
  if (pass == nullptr || !IsBefore(*pass, send)) {
    return Bad(send, "the pass that makes its data does not precede it");
  }
  const int to = forward ? s + 1 : s - 1;
  const Type type = forward ? Type::kRecvForward : Type::kRecvBackward;
  if (Find(to, type, m) == nullptr) {
    return Bad(send, absl::StrCat("there is no ", NameOf(to, type, m)));
  }
  const Type wait = forward ? Type::kWaitForward : Type::kWaitBackward;
  if (has_waits_ && Find(s, wait, m) == nullptr) {
    return Bad(send, absl::StrCat("the file has waits for sends, but no ", NameOf(s, wait, m)));
  }
  return absl::OkStatus();
}

absl::Status Import::CheckRecv(const TorchAction& recv) const {
  const int s = recv.stage, m = recv.micro_batch;
  const bool forward = recv.type == Type::kRecvForward;
  if (!CrossesRanks(forward ? s - 1 : s)) {
    return Bad(recv, absl::StrCat("there is no stage ", forward ? s - 1 : s + 1,
                                  " on another rank to receive from"));
  }
  const int from = forward ? s - 1 : s + 1;
  const Type type = forward ? Type::kSendForward : Type::kSendBackward;
  if (Find(from, type, m) == nullptr) {
    return Bad(recv, absl::StrCat("there is no ", NameOf(from, type, m)));
  }
  const TorchAction* pass = forward ? Find(s, Type::kForward, m) : FindGradient(s, m);
  if (pass == nullptr || !IsBefore(recv, *pass)) {
    return Bad(recv, "the pass that needs its data does not follow it");
  }
  return absl::OkStatus();
}

absl::Status Import::CheckWait(const TorchAction& wait) const {
  const Type type = wait.type == Type::kWaitForward ? Type::kSendForward : Type::kSendBackward;
  const TorchAction* send = Find(wait.stage, type, wait.micro_batch);
  if (send != nullptr && IsBefore(*send, wait)) return absl::OkStatus();
  return Bad(
      wait, absl::StrCat("there is no ", NameOf(wait.stage, type, wait.micro_batch), " before it"));
}

absl::Status Import::CheckMessages() const {
  for (const auto& row : rows_) {
    for (const TorchAction& action : row) {
      const int s = action.stage, m = action.micro_batch;
      if (IsSend(action.type)) DPIPE_RETURN_IF_ERROR(CheckSend(action));
      if (IsRecv(action.type)) DPIPE_RETURN_IF_ERROR(CheckRecv(action));
      if (IsWait(action.type)) DPIPE_RETURN_IF_ERROR(CheckWait(action));
      const bool gives_gradient =
          action.type == Type::kFullBackward || action.type == Type::kInputGrad;
      if (action.type == Type::kForward && CrossesRanks(s) &&
          Find(s, Type::kSendForward, m) == nullptr) {
        return Bad(action, absl::StrCat("there is no ", NameOf(s, Type::kSendForward, m)));
      }
      if (gives_gradient && CrossesRanks(s - 1) && Find(s, Type::kSendBackward, m) == nullptr) {
        return Bad(action, absl::StrCat("there is no ", NameOf(s, Type::kSendBackward, m)));
      }
    }
  }
  return CheckMessageOrder();
}

// The k-th message from one rank to another must be the k-th that the other receives from it.
absl::Status Import::CheckMessageOrder() const {
  std::map<std::pair<int, int>, std::vector<const TorchAction*>> sent, received;
  for (const auto& row : rows_) {
    for (const TorchAction& action : row) {
      const bool forward = action.type == Type::kSendForward || action.type == Type::kRecvForward;
      if (IsSend(action.type)) {
        const int to = rank_of_[action.stage + (forward ? 1 : -1)];
        sent[{action.row, to}].push_back(&action);
      } else if (IsRecv(action.type)) {
        const int from = rank_of_[action.stage + (forward ? -1 : 1)];
        received[{from, action.row}].push_back(&action);
      }
    }
  }
  for (const auto& [ranks, recvs] : received) {
    const std::vector<const TorchAction*>& sends = sent[ranks];  // same size: they are paired
    for (size_t i = 0; i < recvs.size(); ++i) {
      const bool forward = recvs[i]->type == Type::kRecvForward;
      const Key expected(recvs[i]->stage + (forward ? -1 : 1),
                         forward ? Type::kSendForward : Type::kSendBackward, recvs[i]->micro_batch);
      if (Key(sends[i]->stage, sends[i]->type, sends[i]->micro_batch) == expected) continue;
      return Bad(*recvs[i],
                 absl::StrCat("it is receive ", i + 1, " from rank ", ranks.first, ", whose send ",
                              i + 1, " to rank ", ranks.second, " is ",
                              NameOf(sends[i]->stage, sends[i]->type, sends[i]->micro_batch)));
    }
  }
  return absl::OkStatus();
}

absl::Status Import::CheckSharding() const {
  for (const auto& row : rows_) {
    std::set<int> sharded;  // stages that are ever gathered on this rank, and are sharded now
    for (const TorchAction& action : row) {
      if (action.type == Type::kUnshard) sharded.insert(action.stage);
    }
    const std::set<int> managed = sharded;
    for (const TorchAction& action : row) {
      const int s = action.stage;
      const bool is_sharded = sharded.count(s) > 0;
      if (action.type == Type::kUnshard) {
        if (!is_sharded) return Bad(action, "the stage is already unsharded");
        sharded.erase(s);
      } else if (action.type == Type::kReshard) {
        if (is_sharded || managed.count(s) == 0) return Bad(action, "the stage is not unsharded");
        sharded.insert(s);
      } else if (IsCompute(action.type) && is_sharded) {
        return Bad(action, absl::StrCat("stage ", s, " is sharded"));
      } else if (action.type == Type::kReduceGrad) {
        const TorchAction* last = Find(s, Type::kWeightGrad, num_micro_batches_ - 1);
        if (last == nullptr) last = Find(s, Type::kFullBackward, num_micro_batches_ - 1);
        if (!IsBefore(*last, action)) {
          return Bad(action, absl::StrCat("it comes before ", last->cell));
        }
      } else if (action.type == Type::kWaitReduceGrad) {
        const TorchAction* reduce = Find(s, Type::kReduceGrad, -1);
        if (reduce == nullptr || !IsBefore(*reduce, action)) {
          return Bad(action, absl::StrCat("there is no ", s, "REDUCE_GRAD before it"));
        }
      }
    }
  }
  return absl::OkStatus();
}

// Runs every rank as far as possible.
absl::Status Import::CheckRuns() const {
  std::vector<size_t> next(rows_.size(), 0);
  const auto has_run = [&](const TorchAction* action) {
    return static_cast<size_t>(action - rows_[action->row].data()) < next[action->row];
  };
  const auto is_ready = [&](const TorchAction& action) {
    const int s = action.stage, m = action.micro_batch;
    if (action.type == Type::kForward) return s == 0 || has_run(Find(s - 1, Type::kForward, m));
    if (action.type != Type::kFullBackward && action.type != Type::kInputGrad) return true;
    return s + 1 == num_stages_ || has_run(FindGradient(s + 1, m));
  };
  // A stack of ranks that may be able to continue, each at most once.
  std::vector<int> waiting(rows_.size());
  std::iota(waiting.begin(), waiting.end(), 0);
  std::vector<bool> is_waiting(rows_.size(), true);
  while (!waiting.empty()) {
    const int r = waiting.back();
    waiting.pop_back();
    is_waiting[r] = false;
    for (; next[r] < rows_[r].size() && is_ready(rows_[r][next[r]]); ++next[r]) {
      const TorchAction& action = rows_[r][next[r]];
      if (!IsCompute(action.type)) continue;
      const int other = action.stage + (action.type == Type::kForward ? 1 : -1);
      if (other < 0 || other == num_stages_ || is_waiting[rank_of_[other]]) continue;
      is_waiting[rank_of_[other]] = true;
      waiting.push_back(rank_of_[other]);
    }
  }
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (next[r] < rows_[r].size()) {
      return Bad(rows_[r][next[r]], "it waits for a pass that never runs in this order");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Schedule> Import::Make(const std::string& name) const {
  ScheduleChain chain;
  chain.devices = rank_of_;
  chain.num_micro_batches = num_micro_batches_;
  std::vector<std::vector<Slot>> slots(rows_.size());
  for (const auto& row : rows_) {
    for (const TorchAction& action : row) {
      if (!IsCompute(action.type)) continue;
      const Pass pass = action.type == Type::kForward        ? Pass::kForward
                        : action.type == Type::kFullBackward ? Pass::kBackward
                        : action.type == Type::kInputGrad    ? Pass::kInputGrad
                                                             : Pass::kWeightGrad;
      slots[action.row].push_back({pass, action.micro_batch, action.stage});
    }
  }
  return Schedule::Create(name, {std::move(chain)}, std::move(slots));
}

}  // namespace

absl::StatusOr<Schedule> ScheduleFromTorchCsv(const std::string& name, absl::string_view text) {
  DPIPE_ASSIGN_OR_RETURN(const Rows rows, ParseTorchActions(text));
  Import import(rows);
  DPIPE_RETURN_IF_ERROR(import.Check());
  return import.Make(name);
}

}  // namespace dpipe
