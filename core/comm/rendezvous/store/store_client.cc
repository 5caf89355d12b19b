#include "core/comm/rendezvous/store/store_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/comm/rendezvous/store/store_frame.h"
#include "core/comm/rendezvous/store/store_server.h"

namespace dpipe {

namespace {

constexpr absl::Duration kRetryInterval = absl::Milliseconds(100);

StoreMessage JoinMessage(const StoreClientOptions& options) {
  StoreMessage message;
  StoreMessage::Join& join = *message.mutable_join();
  join.set_protocol(kStoreProtocol);
  join.set_job(options.job);
  join.set_process(options.process);
  join.set_num_processes(options.num_processes);
  join.set_name(options.name);
  join.set_host(options.on_host);
  return message;
}

absl::Status FailureOf(const StoreMessage& message) {
  return absl::Status(static_cast<absl::StatusCode>(message.failure().code()),
                      message.failure().message());
}

absl::Status SaysNothing() {
  return absl::DeadlineExceededError(
      "the job's store (on process 0) does not respond: it is frozen, or its network is cut");
}

void WaitForData(const Socket& socket) {
  pollfd entry = {socket.fd(), POLLIN, 0};
  poll(&entry, 1, absl::ToInt64Milliseconds(kHeartbeatTick));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreClient>> StoreClient::Join(const StoreClientOptions& options) {
  DPIPE_CHECK(!options.secret.empty());
  const Deadline deadline(options.join_deadline);
  const std::string here = absl::StrCat("process ", options.process, " of ", options.num_processes,
                                        " at ", HostPort(options.host, options.port));
  while (true) {
    auto socket = ConnectTcp(options.host, options.port, deadline.left());
    if (!socket.ok()) {
      return absl::Status(socket.status().code(),
                          absl::StrCat(here, ": cannot reach the job's store (on process 0): ",
                                       socket.status().message()));
    }
    auto client = std::unique_ptr<StoreClient>(new StoreClient(options, *std::move(socket)));
    const absl::Status status = client->AwaitWelcome(deadline.left() + options.silence);
    if (status.ok()) {
      client->thread_ = std::thread([raw = client.get()] { raw->Loop(); });
      return client;
    }
    // This was an earlier run's store that is about to exit, or has exited; not this job's own
    // failure.
    const bool may_pass = absl::IsUnavailable(status) && client->failure().ok();
    if (!may_pass || deadline.left() < kRetryInterval) {
      return absl::Status(status.code(), absl::StrCat(here, ": ", status.message()));
    }
    absl::SleepFor(kRetryInterval);
  }
}

absl::StatusOr<std::string> StoreClient::ReceiveBytes(size_t count, const Deadline& deadline,
                                                      const std::string& closed) {
  std::string bytes;
  while (bytes.size() < count && !deadline.passed()) {
    WaitForData(socket_);
    const Socket::Outcome outcome = socket_.Receive(&bytes, count - bytes.size());
    if (outcome == Socket::Outcome::kClosed) return absl::UnavailableError(closed);
  }
  if (bytes.size() < count) return SaysNothing();
  return bytes;
}

absl::Status StoreClient::Prove(const Deadline& deadline) {
  DPIPE_ASSIGN_OR_RETURN(
      const std::string store_nonce,
      ReceiveBytes(kNonceBytes, deadline, "the store has closed the connection"));
  const std::string nonce = RandomBytes(kNonceBytes);
  const StoreChallenge challenge(options_.secret, store_nonce, nonce);
  DPIPE_RETURN_IF_ERROR(
      socket_.SendAll(nonce + challenge.ProofOf(StoreSide::kProcess), options_.silence));
  const std::string way_out = absl::StrCat(
      "it belongs to another job, or its secret differs from this process's, which comes from ",
      options_.secret.source(), "; give all processes of the job the same ", kSecretVariable);
  DPIPE_ASSIGN_OR_RETURN(
      const std::string proof,
      ReceiveBytes(kHmacBytes, deadline,
                   "the store closed the connection during the challenge: " + way_out));
  if (!SameBytes(proof, challenge.ProofOf(StoreSide::kStore))) {
    return absl::UnavailableError("the peer cannot prove that it is the job's store: " + way_out);
  }
  in_ = FrameReader(challenge.KeyOf(StoreSide::kStore));
  absl::MutexLock lock(&write_mutex_);
  writer_ = FrameWriter(challenge.KeyOf(StoreSide::kProcess));
  return absl::OkStatus();
}

absl::Status StoreClient::AwaitWelcome(absl::Duration limit) {
  const Deadline deadline(limit);
  DPIPE_RETURN_IF_ERROR(Prove(deadline));
  DPIPE_RETURN_IF_ERROR(WriteFrame(JoinMessage(options_)));
  while (!deadline.passed()) {
    WaitForData(socket_);
    const Socket::Outcome outcome = socket_.Receive(in_.buffer());
    while (true) {
      DPIPE_ASSIGN_OR_RETURN(std::optional<StoreMessage> message, in_.Next());
      if (!message.has_value()) break;
      switch (message->kind_case()) {
        case StoreMessage::kNotNow:
          return absl::UnavailableError(absl::StrCat("refused: ", message->not_now()));
        case StoreMessage::kRefused:
          return absl::FailedPreconditionError(absl::StrCat("refused: ", message->refused()));
        case StoreMessage::kFailure:
          SetFailure(FailureOf(*message));
          return failure();
        case StoreMessage::kJoined:
          joined_ = message->joined();
          return absl::OkStatus();
        case StoreMessage::kHeartbeat:
          break;
        default:
          return absl::UnavailableError("the peer does not speak the store's protocol");
      }
    }
    if (outcome == Socket::Outcome::kClosed) {
      return absl::UnavailableError("the store has closed the connection");
    }
  }
  return SaysNothing();
}

StoreClient::~StoreClient() {
  if (!thread_.joinable()) return;  // has not joined
  StoreMessage message;
  message.set_leaving(true);
  if (failure().ok()) Send(message).IgnoreError();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void StoreClient::Loop() {
  RunningClock clock = HeartbeatClock();
  absl::Duration silent, since_heartbeat;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    // Messages that arrived together with the welcome are in the buffer already.
    auto message = in_.Next();
    while (message.ok() && message->has_value()) {
      Handle(**std::move(message));
      message = in_.Next();
    }
    if (!message.ok()) {
      return SetFailure(absl::UnavailableError(
          absl::StrCat(StoreName(), " violates the protocol: ", message.status().message())));
    }
    WaitForData(socket_);
    const Socket::Outcome outcome = socket_.Receive(in_.buffer());
    const absl::Duration lap = clock.Lap();
    silent = outcome == Socket::Outcome::kData ? absl::ZeroDuration() : silent + lap;
    since_heartbeat += lap;
    if (outcome == Socket::Outcome::kClosed) {
      return SetFailure(absl::UnavailableError(
          absl::StrCat(StoreName(), " has died: its connection was closed")));
    }
    if (silent > options_.silence) {
      return SetFailure(absl::UnavailableError(absl::StrCat(
          StoreName(), " has sent nothing for ", absl::FormatDuration(options_.silence),
          ": it is frozen, or the network between ", HostPort(options_.host, options_.port),
          " and ", NameOf(process()), " is cut")));
    }
    if (since_heartbeat < HeartbeatInterval(options_.silence)) continue;
    since_heartbeat = absl::ZeroDuration();
    Beat();  // also after a failure: this process counts as alive until it leaves
  }
}

void StoreClient::Handle(StoreMessage message) {
  switch (message.kind_case()) {
    case StoreMessage::kValue: {
      absl::MutexLock lock(&mutex_);
      values_[message.value().key()].push_back(
          std::move(*message.mutable_value()->mutable_value()));
      return;
    }
    case StoreMessage::kNote: {
      absl::MutexLock lock(&notes_mutex_);
      const auto handler = note_handlers_.find(message.note().key());
      if (handler != note_handlers_.end()) return handler->second(message.note().value());
      absl::MutexLock notes_lock(&mutex_);
      notes_[message.note().key()].push_back(std::move(*message.mutable_note()->mutable_value()));
      return;
    }
    case StoreMessage::kFailure:
      return SetFailure(FailureOf(message));
    default:
      return;
  }
}

std::string StoreClient::StoreName() const {
  return absl::StrCat(NameOf(0), ", the host of the job's store,");
}

absl::Status StoreClient::WriteFrame(const StoreMessage& message) {
  const size_t size = message.ByteSizeLong();
  if (size > kMaxFrameBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a message of ", size, " bytes to the job's store; the maximum is ", kMaxFrameBytes));
  }
  absl::MutexLock lock(&write_mutex_);
  return SendFrame(message);
}

// Part of a message that could not be sent may have been transmitted, so nothing can follow it.
absl::Status StoreClient::SendFrame(const StoreMessage& message) {
  if (broken_) return absl::UnavailableError("an earlier message could not be sent completely");
  const absl::Status sent = socket_.SendAll(writer_.Encode(message), options_.silence);
  broken_ = !sent.ok();
  return sent;
}

// A broken connection is noticed when reading. A connection on which the store does not read is
// shut down once the reason is recorded; data that has arrived can still be read.
absl::Status StoreClient::Sent(const absl::Status& sent) {
  if (absl::IsDeadlineExceeded(sent)) {
    SetFailure(
        absl::UnavailableError(absl::StrCat(StoreName(), " is not reading: ", sent.message())));
    shutdown(socket_.fd(), SHUT_RDWR);
  }
  return sent;
}

// A message being sent is a sign of life, too. Waiting for it would keep this thread from reading.
void StoreClient::Beat() {
  if (!write_mutex_.TryLock()) return;
  StoreMessage heartbeat;
  heartbeat.set_heartbeat(1);
  const absl::Status sent = SendFrame(heartbeat);
  write_mutex_.Unlock();
  Sent(sent).IgnoreError();
}

// Sends a message. If it cannot be sent, returns the job's failure, if known, as the reason.
absl::Status StoreClient::Send(const StoreMessage& message) {
  DPIPE_RETURN_IF_ERROR(failure());
  const absl::Status sent = Sent(WriteFrame(message));
  if (sent.ok()) return sent;
  const absl::Status failed = failure();
  return failed.ok() ? sent : failed;
}

absl::Status StoreClient::Set(const std::string& key, const std::string& value) {
  StoreMessage message;
  message.mutable_set()->set_key(key);
  message.mutable_set()->set_value(value);
  return Send(message);
}

template <typename Done>
absl::Status StoreClient::Await(const Done& done, const std::string& what,
                                absl::Duration deadline) {
  auto ready = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !failure_.ok() || done(); };
  absl::Duration waited;
  RunningClock clock = HeartbeatClock();
  while (waited < deadline && !ready()) {
    mutex_.AwaitWithTimeout(absl::Condition(&ready), kHeartbeatTick);
    waited += clock.Lap();
  }
  if (done()) return absl::OkStatus();
  const absl::Status reason =
      failure_.ok() ? absl::DeadlineExceededError("it did not arrive") : failure_;
  return absl::Status(reason.code(),
                      absl::StrCat(NameOf(process()), " waited ",
                                   absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))),
                                   " for ", what, ": ", reason.message()));
}

absl::StatusOr<std::string> StoreClient::Get(const std::string& key, const std::string& what,
                                             absl::Duration deadline) {
  StoreMessage message;
  message.set_get(key);
  const absl::Status sent = Send(message);
  absl::MutexLock lock(&mutex_);
  if (!sent.ok() && failure_.ok())
    return sent;  // Await reports a failure, with what the wait was for
  auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return values_.count(key) > 0; };
  DPIPE_RETURN_IF_ERROR(Await(there, what, deadline));
  return Take(&values_, key);
}

std::string StoreClient::Take(std::map<std::string, std::deque<std::string>>* from,
                              const std::string& key) {
  std::deque<std::string>& waiting = (*from)[key];
  std::string first = std::move(waiting.front());
  waiting.pop_front();
  if (waiting.empty()) from->erase(key);
  return first;
}

absl::Status StoreClient::SendNote(int to, const std::string& key, const std::string& value) {
  StoreMessage message;
  message.mutable_note()->set_to(to);
  message.mutable_note()->set_key(key);
  message.mutable_note()->set_value(value);
  return Send(message);
}

absl::StatusOr<std::string> StoreClient::TakeNote(const std::string& key, const std::string& what,
                                                  absl::Duration deadline) {
  absl::MutexLock lock(&mutex_);
  auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return notes_.count(key) > 0; };
  DPIPE_RETURN_IF_ERROR(Await(there, what, deadline));
  return Take(&notes_, key);
}

void StoreClient::OnNote(const std::string& key,
                         std::function<void(const std::string& value)> handler) {
  absl::MutexLock lock(&notes_mutex_);
  note_handlers_.erase(key);
  if (!handler) return;
  std::deque<std::string> early;
  {
    absl::MutexLock notes_lock(&mutex_);
    if (notes_.count(key) > 0) early = std::move(notes_.extract(key).mapped());
  }
  for (const std::string& value : early) handler(value);
  note_handlers_[key] = std::move(handler);
}

void StoreClient::Fail(const absl::Status& status) {
  StoreMessage message;
  message.mutable_failure()->set_code(static_cast<int>(status.code()));
  message.mutable_failure()->set_message(std::string(status.message()));
  const absl::Status sent = WriteFrame(message);
  SetFailure(status);
  if (absl::IsDeadlineExceeded(sent)) shutdown(socket_.fd(), SHUT_RDWR);
}

absl::Status StoreClient::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

bool StoreClient::AwaitFailure(absl::Duration deadline) const {
  absl::MutexLock lock(&mutex_);
  auto failed = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !failure_.ok(); };
  const Deadline limit(deadline);
  while (!failed() && !limit.passed()) {
    mutex_.AwaitWithTimeout(absl::Condition(&failed), std::min(limit.left(), kHeartbeatTick));
  }
  return failed();
}

void StoreClient::SetFailure(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
  }
  absl::MutexLock lock(&listeners_mutex_);
  notified_ = true;
  for (const auto& [id, listener] : listeners_) listener(status);
}

int StoreClient::AddFailureListener(std::function<void(const absl::Status&)> listener) {
  absl::MutexLock lock(&listeners_mutex_);
  if (notified_) listener(failure());
  listeners_[next_listener_] = std::move(listener);
  return next_listener_++;
}

void StoreClient::RemoveFailureListener(int id) {
  absl::MutexLock lock(&listeners_mutex_);
  listeners_.erase(id);
}

absl::StatusOr<std::vector<std::string>> ExchangeTexts(StoreClient* store, const std::string& key,
                                                       int rank, int size, const std::string& text,
                                                       const std::string& why,
                                                       absl::Duration deadline) {
  DPIPE_RETURN_IF_ERROR(store->Set(absl::StrCat(key, "/", rank), text));
  std::vector<std::string> texts(size);
  for (int other = 0; other < size; ++other) {
    if (other == rank) {
      texts[other] = text;
      continue;
    }
    DPIPE_ASSIGN_OR_RETURN(texts[other],
                           store->Get(absl::StrCat(key, "/", other),
                                      absl::StrCat("rank ", other, " ", why), deadline));
  }
  return texts;
}

absl::Status MeetRanks(StoreClient* store, const std::string& key, int rank, int size,
                       const std::string& why, absl::Duration deadline) {
  return ExchangeTexts(store, key, rank, size, "", why, deadline).status();
}

}  // namespace dpipe
