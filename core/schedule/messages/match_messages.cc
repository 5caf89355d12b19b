#include "core/schedule/messages/match_messages.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {

std::string PlaceOf(int rank, int index, const Instruction& instruction) {
  return absl::StrCat("rank ", rank, ", instruction ", index, " (",
                      Instruction::Kind_Name(instruction.kind()), ")");
}

namespace {

// Returns the first field in which a SEND and a RECV differ, with both values, or "" if they match.
std::string Difference(const Instruction& send, const Instruction& recv) {
  const auto differs = [](const char* field, int64_t sent, int64_t received) {
    return absl::StrCat("SEND has ", field, " ", sent, " and RECV has ", received);
  };
  if (send.payload() != recv.payload()) {
    return absl::StrCat("SEND has payload ", Instruction::Payload_Name(send.payload()),
                        " and RECV has ", Instruction::Payload_Name(recv.payload()));
  }
  const std::pair<const char*, std::pair<int64_t, int64_t>> fields[] = {
      {"stage", {send.stage(), recv.peer_stage()}},
      {"peer_stage", {send.peer_stage(), recv.stage()}},
      {"component", {send.component(), recv.component()}},
      {"micro_batch", {send.micro_batch(), recv.micro_batch()}},
      {"layers.begin", {send.layers().begin(), recv.layers().begin()}},
      {"samples.begin", {send.samples().begin(), recv.samples().begin()}},
      {"samples.end", {send.samples().end(), recv.samples().end()}},
      {"bytes", {send.bytes(), recv.bytes()}},
      {"step_offset", {send.step_offset(), recv.step_offset()}}};
  for (const auto& [field, values] : fields) {
    if (values.first != values.second) return differs(field, values.first, values.second);
  }
  return "";
}

// The instruction indices of all SENDs (or all RECVs), by link, in list order.
using Queues = std::map<std::pair<int, int>, std::vector<int>>;  // (from, to)

absl::Status Collect(const Plan& plan, Queues* sends, Queues* recvs) {
  for (int r = 0; r < plan.devices_size(); ++r) {
    const auto& list = plan.devices(r).instructions();
    for (int i = 0; i < list.size(); ++i) {
      if (!IsMessage(list[i])) continue;
      const int peer = list[i].peer();
      if (peer < 0 || peer >= plan.devices_size() || peer == r) {
        return absl::InvalidArgumentError(absl::StrCat(PlaceOf(r, i, list[i]), ": peer ", peer,
                                                       " is not another of the ",
                                                       plan.devices_size(), " ranks"));
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
          absl::StrCat(PlaceOf(link.first, sends[k], from[sends[k]]), " does not match ",
                       PlaceOf(link.second, recvs[k], to[recvs[k]]), ": ", difference));
    }
    (*match)[link.first][sends[k]] = recvs[k];
    (*match)[link.second][recvs[k]] = sends[k];
  }
  if (sends.size() == recvs.size()) return absl::OkStatus();
  const bool more_sends = sends.size() > recvs.size();
  const int rank = more_sends ? link.first : link.second;
  const int index = more_sends ? sends[recvs.size()] : recvs[sends.size()];
  return absl::InvalidArgumentError(
      absl::StrCat(PlaceOf(rank, index, plan.devices(rank).instructions(index)),
                   " has no counterpart: rank ", link.first, " sends ", sends.size(),
                   " messages to rank ", link.second, ", which receives ", recvs.size()));
}

}  // namespace

absl::StatusOr<MatchTable> MatchMessages(const Plan& plan) {
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

}  // namespace dpipe
