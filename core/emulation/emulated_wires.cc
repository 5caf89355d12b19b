#include "core/emulation/emulated_wires.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/shard.h"

namespace dpipe {

namespace {

int64_t BytesOf(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size_bytes();
  return bytes;
}

}  // namespace

template <typename Ready>
absl::Status EmulatedWires::ParkUntil(int rank, const void* object, const std::string& what,
                                      const Ready& ready) {
  while (failure_.ok() && !ready()) {
    awaited_[rank] = {object, what};
    const bool woken = clock_->Park(rank);
    if (!woken && failure_.ok()) failure_ = StuckError();
    awaited_[rank] = {};
  }
  return failure_;
}

absl::Status EmulatedWires::StuckError() const {
  std::string message = "deadlock: every rank waits for another: ";
  const char* separator = "";
  for (int r = 0; r < num_ranks_; ++r) {
    if (awaited_[r].object == nullptr) continue;
    absl::StrAppend(&message, separator, "rank ", r, " for ", awaited_[r].what);
    separator = "; ";
  }
  return absl::DeadlineExceededError(message);
}

void EmulatedWires::WakeAwaiting(int rank, const void* object, Nanos at_ns) {
  if (awaited_[rank].object == object) clock_->Wake(rank, at_ns);
}

void EmulatedWires::AddEvent(int rank, TraceEvent::Stream stream, const CurrentInstruction& by,
                             TimeSpan span) {
  if (by.instruction < 0) return;
  TraceEvent event;
  event.set_rank(rank);
  event.set_stream(stream);
  event.set_step(static_cast<int32_t>(by.step));
  event.set_instruction(by.instruction);
  event.set_start_ns(span.start_ns);
  event.set_end_ns(span.end_ns);
  events_.push_back(std::move(event));
}

// Does not wait for a time in the past, and then keeps the time that the host has been charged.
void EmulatedWires::SleepUntil(int rank, Nanos at_ns) {
  if (at_ns > clock_->Now(rank)) clock_->SleepUntil(rank, at_ns);
}

absl::StatusOr<std::shared_ptr<EmulatedMessage>> EmulatedWires::Send(int from, int to, int64_t tag,
                                                                     std::vector<Tensor> tensors) {
  absl::MutexLock lock(&mutex());
  if (!failure_.ok()) return failure_;
  Mailbox& mailbox = mailboxes_[{from, to, tag}];
  std::shared_ptr<EmulatedMessage> message;
  if (mailbox.posted.empty()) {
    message = mailbox.sent.emplace_back(std::make_shared<EmulatedMessage>());
  } else {
    message = mailbox.posted.front();
    mailbox.posted.pop_front();
  }
  message->tensors = std::move(tensors);
  message->send = {true, clock_->Now(from), current_[from]};
  if (message->recv.here) Deliver(from, to, message.get());
  return message;
}

absl::StatusOr<std::shared_ptr<EmulatedMessage>> EmulatedWires::PostRecv(int from, int to,
                                                                         int64_t tag) {
  absl::MutexLock lock(&mutex());
  if (!failure_.ok()) return failure_;
  Mailbox& mailbox = mailboxes_[{from, to, tag}];
  std::shared_ptr<EmulatedMessage> message;
  if (mailbox.sent.empty()) {
    message = mailbox.posted.emplace_back(std::make_shared<EmulatedMessage>());
  } else {
    message = mailbox.sent.front();
    mailbox.sent.pop_front();
  }
  message->recv = {true, clock_->Now(to), current_[to]};
  if (message->send.here) Deliver(from, to, message.get());
  return message;
}

void EmulatedWires::Deliver(int from, int to, EmulatedMessage* message) {
  const int64_t bytes =
      message->send.by.bytes >= 0 ? message->send.by.bytes : BytesOf(message->tensors);
  message->span =
      network_.Transfer(from, to, bytes, std::max(message->send.at_ns, message->recv.at_ns));
  message->delivered = true;
  interference_.AddTransfer(from, message->span);
  interference_.AddTransfer(to, message->span);
  AddEvent(from, TraceEvent::SEND_STREAM, message->send.by, message->span);
  AddEvent(to, TraceEvent::RECV_STREAM, message->recv.by, message->span);
  WakeAwaiting(to, message, message->span.end_ns);
}

absl::Status EmulatedWires::Await(int rank, const std::shared_ptr<EmulatedMessage>& message,
                                  const std::string& what) {
  {
    absl::MutexLock lock(&mutex());
    DPIPE_RETURN_IF_ERROR(ParkUntil(rank, message.get(), what, [&] { return message->delivered; }));
  }
  SleepUntil(rank, message->span.end_ns);
  return absl::OkStatus();
}

absl::Status EmulatedWires::Await(int rank, const std::shared_ptr<EmulatedCollective>& collective,
                                  const std::string& what) {
  {
    absl::MutexLock lock(&mutex());
    DPIPE_RETURN_IF_ERROR(ParkUntil(rank, collective.get(),
                                    absl::StrCat(what, " from all ranks of its group"),
                                    [&] { return collective->complete; }));
  }
  SleepUntil(rank, collective->span.end_ns);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<EmulatedCollective>> EmulatedWires::StartCollective(
    int rank, CollectiveKind kind, std::vector<int> ranks, EmulatedCollective::Member member) {
  absl::MutexLock lock(&mutex());
  if (!failure_.ok()) return failure_;
  Group& group = groups_[{kind, ranks}];
  const int64_t call = group.calls[rank]++;
  std::shared_ptr<EmulatedCollective>& open = group.open[call];
  if (open == nullptr) open = std::make_shared<EmulatedCollective>();
  const std::shared_ptr<EmulatedCollective> collective = open;
  collective->kind = kind;
  collective->ranks = std::move(ranks);
  collective->latest_ns = std::max(collective->latest_ns, clock_->Now(rank));
  member.by = current_[rank];
  collective->members[rank] = std::move(member);
  if (collective->members.size() == collective->ranks.size()) {
    group.open.erase(call);
    Complete(collective.get());
  }
  return collective;
}

void EmulatedWires::Complete(EmulatedCollective* collective) {
  const auto& [first_rank, first] = *collective->members.begin();
  const int64_t own_bytes =
      BytesOf(collective->kind == CollectiveKind::kReduceScatter ? first.in : first.out);
  const int64_t bytes = first.by.bytes >= 0 ? first.by.bytes : own_bytes;
  ExchangeTensors(collective);
  collective->span =
      network_.Collective(collective->kind, collective->ranks, bytes, collective->latest_ns);
  collective->complete = true;
  for (const auto& [rank, member] : collective->members) {
    interference_.AddCollective(rank, collective->span);
    AddEvent(rank, TraceEvent::COLLECTIVE, member.by, collective->span);
    WakeAwaiting(rank, collective, collective->span.end_ns);
  }
}

absl::Status EmulatedWires::SumOverAll(int rank, absl::Span<double> values,
                                       const std::string& what) {
  Nanos end_ns = 0;
  {
    absl::MutexLock lock(&mutex());
    if (!failure_.ok()) return failure_;
    const int64_t generation = values_.generation;
    values_.brought[rank].assign(values.begin(), values.end());
    values_.latest_ns = std::max(values_.latest_ns, clock_->Now(rank));
    if (++values_.arrived == num_ranks_) {
      values_.sum.assign(values.size(), 0.0);
      for (const auto& [from, theirs] : values_.brought) {
        DPIPE_CHECK_EQ(theirs.size(), values.size()) << what;
        for (size_t i = 0; i < theirs.size(); ++i) values_.sum[i] += theirs[i];
      }
      values_.end_ns = values_.latest_ns + network_.Barrier();
      ++values_.generation;
      values_.arrived = 0;
      values_.brought.clear();
      for (int r = 0; r < num_ranks_; ++r) WakeAwaiting(r, &values_, values_.end_ns);
    } else {
      DPIPE_RETURN_IF_ERROR(ParkUntil(rank, &values_, absl::StrCat(what, " from all ranks"),
                                      [&] { return values_.generation != generation; }));
    }
    // No rank arrives at the next sum before all have resumed from this one.
    std::copy(values_.sum.begin(), values_.sum.end(), values.begin());
    end_ns = values_.end_ns;
  }
  SleepUntil(rank, end_ns);
  return absl::OkStatus();
}

// A span that slows the computation down while it sleeps begins after it went to sleep, so the
// known end is never too late.
void EmulatedWires::Compute(int rank, Nanos start_ns, Nanos duration_ns) {
  Nanos slept_until = -1;
  while (true) {
    Nanos end_ns = 0;
    {
      absl::MutexLock lock(&mutex());
      end_ns = interference_.EndOf(rank, start_ns, duration_ns);
    }
    if (end_ns <= slept_until) return;
    clock_->SleepUntil(rank, end_ns);
    slept_until = end_ns;
  }
}

void EmulatedWires::Abort(const absl::Status& status) {
  absl::MutexLock lock(&mutex());
  if (failure_.ok()) failure_ = status;
  for (int r = 0; r < num_ranks_; ++r) clock_->Wake(r, 0);
}

std::vector<TraceEvent> EmulatedWires::TakeEvents() {
  absl::MutexLock lock(&mutex());
  std::stable_sort(events_.begin(), events_.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.start_ns() < b.start_ns();
  });
  return std::exchange(events_, {});
}

namespace {

using Members = std::map<int, EmulatedCollective::Member>;

std::vector<float> Sum(const Members& members, std::vector<Tensor> EmulatedCollective::Member::*of,
                       size_t i) {
  std::vector<float> sum;
  for (const auto& [rank, member] : members) {
    const absl::Span<const float> theirs = (member.*of)[i].span<float>();
    if (sum.empty()) {
      sum.assign(theirs.begin(), theirs.end());
      continue;
    }
    DPIPE_CHECK_EQ(theirs.size(), sum.size()) << "rank " << rank << ", tensor " << i;
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += theirs[k];
  }
  return sum;
}

void AllReduce(Members* members) {
  const size_t num_tensors = members->begin()->second.out.size();
  for (size_t i = 0; i < num_tensors; ++i) {
    const std::vector<float> sum = Sum(*members, &EmulatedCollective::Member::out, i);
    for (auto& [rank, member] : *members) {
      std::copy(sum.begin(), sum.end(), member.out[i].data<float>());
    }
  }
}

void AllGather(Members* members) {
  const size_t num_tensors = members->begin()->second.in.size();
  for (size_t i = 0; i < num_tensors; ++i) {
    std::vector<float> whole;
    for (const auto& [rank, member] : *members) {
      const absl::Span<const float> shard = member.in[i].span<float>();
      whole.insert(whole.end(), shard.begin(), shard.end());
    }
    for (auto& [rank, member] : *members) {
      DPIPE_CHECK_EQ(member.out[i].num_elements(), static_cast<int64_t>(whole.size()))
          << "rank " << rank << ", tensor " << i;
      std::copy(whole.begin(), whole.end(), member.out[i].data<float>());
    }
  }
}

void ReduceScatter(Members* members) {
  const size_t num_tensors = members->begin()->second.in.size();
  for (size_t i = 0; i < num_tensors; ++i) {
    const std::vector<float> sum = Sum(*members, &EmulatedCollective::Member::in, i);
    Shard shard{0, static_cast<int>(members->size())};
    for (auto& [rank, member] : *members) {
      const absl::Span<float> own = member.out[i].span<float>();
      const int64_t begin = shard.Begin(static_cast<int64_t>(sum.size()));
      DPIPE_CHECK_EQ(static_cast<int64_t>(own.size()), shard.Size(static_cast<int64_t>(sum.size())))
          << "rank " << rank << ", tensor " << i;
      for (size_t k = 0; k < own.size(); ++k) own[k] += sum[begin + k];
      ++shard.index;
    }
  }
}

}  // namespace

void ExchangeTensors(EmulatedCollective* collective) {
  switch (collective->kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(&collective->members);
    case CollectiveKind::kAllGather:
      return AllGather(&collective->members);
    case CollectiveKind::kReduceScatter:
      return ReduceScatter(&collective->members);
  }
}

}  // namespace dpipe
