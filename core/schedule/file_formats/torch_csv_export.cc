#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/schedule/file_formats/torch_csv.h"

namespace dpipe {
namespace {

using Cells = std::vector<std::vector<std::string>>;  // [rank]

absl::Status CheckExpressible(const Schedule& schedule) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", schedule.name(), " as a torch schedule file: ", why));
  };
  const std::vector<ScheduleChain>& chains = schedule.chains();
  if (chains.size() > 1) {
    const bool copies = chains[0].backbone == chains[1].backbone;
    return refuse(
        absl::StrCat("it has ", chains.size(), " chains",
                     copies ? " of one backbone, but the format cannot express a stage on two ranks"
                            : " of several backbones, but the format has only one chain"));
  }
  if (chains[0].num_forward_only > 0) {
    return refuse(
        absl::StrCat(chains[0].num_forward_only,
                     " of its stages are forward-only, but the format requires a backward "
                     "pass for every forward pass"));
  }
  for (int d = 0; d < schedule.num_devices(); ++d) {
    if (schedule.slots(d).empty()) {
      return refuse(absl::StrCat("device ", d, " has no stages, but every rank must have one"));
    }
  }
  return absl::OkStatus();
}

std::string CellOf(const Slot& slot) {
  return absl::StrCat(slot.stage, std::string(1, PassLetter(slot.pass)), slot.micro_batch);
}

// Writes cells with messages in the order of a run: a pass when it starts, its messages when it
// ends.
class MessageWriter {
 public:
  MessageWriter(const Schedule& schedule, bool send_waits)
      : schedule_(schedule),
        send_waits_(send_waits),
        cells_(schedule.num_devices()),
        last_waits_(schedule.num_devices()) {}

  Cells Write();

 private:
  void AddMessages(int device, const Slot& slot);

  const Schedule& schedule_;
  const bool send_waits_;
  Cells cells_, last_waits_;
};

void MessageWriter::AddMessages(int device, const Slot& slot) {
  const int s = slot.stage, m = slot.micro_batch;
  const bool forward = slot.pass == Pass::kForward;
  if (!forward && !ComputesInputGrad(slot.pass)) return;
  const int after = schedule_.Next(s);
  const bool sent_forward = after >= 0 && schedule_.DeviceOf(after) != device;
  if (!forward && sent_forward && send_waits_) {
    cells_[device].push_back(absl::StrCat(s, "WAIT_SEND_F", m));
  }
  const int to = forward ? after : schedule_.Previous(s);
  if (to < 0 || schedule_.DeviceOf(to) == device) return;
  const char* letter = forward ? "F" : "B";
  cells_[device].push_back(absl::StrCat(s, "SEND_", letter, m));
  cells_[schedule_.DeviceOf(to)].push_back(absl::StrCat(to, "RECV_", letter, m));
  if (!forward) last_waits_[device].push_back(absl::StrCat(s, "WAIT_SEND_B", m));
}

Cells MessageWriter::Write() {
  // Every pass takes time, so each one ends after it starts.
  const std::vector<PassCosts> costs(schedule_.num_stages(), PassCosts{2, 1, 1});
  const std::vector<std::vector<Nanos>> starts = schedule_.StartTimes(costs);
  // (time, starts, device, slot). At equal times, ends come before starts.
  std::vector<std::tuple<Nanos, bool, int, int>> events;
  for (int d = 0; d < schedule_.num_devices(); ++d) {
    for (int i = 0; i < static_cast<int>(starts[d].size()); ++i) {
      const Pass pass = schedule_.slots(d)[i].pass;
      const Nanos duration = pass == Pass::kForward || pass == Pass::kBackward ? 2 : 1;
      events.emplace_back(starts[d][i], true, d, i);
      events.emplace_back(starts[d][i] + duration, false, d, i);
    }
  }
  std::sort(events.begin(), events.end());
  for (const auto& [time, is_start, device, i] : events) {
    const Slot& slot = schedule_.slots(device)[i];
    if (is_start) {
      cells_[device].push_back(CellOf(slot));
    } else {
      AddMessages(device, slot);
    }
  }
  for (int d = 0; d < schedule_.num_devices() && send_waits_; ++d) {
    cells_[d].insert(cells_[d].end(), last_waits_[d].begin(), last_waits_[d].end());
  }
  return std::move(cells_);
}

}  // namespace

absl::StatusOr<std::string> TorchCsvFromSchedule(const Schedule& schedule,
                                                 const TorchCsvOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckExpressible(schedule));
  Cells cells;
  if (options.mode == TorchCsvMode::kWithCommunication) {
    cells = MessageWriter(schedule, options.send_waits).Write();
  } else {
    for (int d = 0; d < schedule.num_devices(); ++d) {
      cells.emplace_back();
      for (const Slot& slot : schedule.slots(d)) cells.back().push_back(CellOf(slot));
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : cells) {
    absl::StrAppend(&text, absl::StrJoin(row, ","), "\n");
  }
  return text;
}

}  // namespace dpipe
