#include "core/comm/rendezvous/store/store_server.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/count.h"
#include "core/base/text/show.h"
#include "core/comm/rendezvous/store/store_frame.h"

namespace dpipe {
namespace {

constexpr uint32_t kMaxJoinBytes = 64 * 1024;
// More than a job's processes that are strangers at once: each is one for a few round trips only.
constexpr int kMaxStrangers = 256;
// Per iteration of the loop. A client that has been accepted has several iterations to answer
// before so many others have been accepted that it might be dropped.
constexpr int kMaxAcceptedAtOnce = 16;
constexpr absl::Duration kReportInterval = absl::Seconds(10);
// Limit on bytes that a process has not read: several messages of maximum size. Only a process of
// the job can cause so many.
constexpr size_t kMaxUntakenBytes = size_t{4} * kMaxFrameBytes;
// Time for a failure's message to reach all processes before the connections close.
constexpr absl::Duration kFarewell = absl::Seconds(1);

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") || address == "::1";
}

StoreMessage Refusal(const std::string& reason) {
  StoreMessage message;
  message.set_refused(reason);
  return message;
}

StoreMessage FailureMessage(const absl::Status& status) {
  StoreMessage message;
  message.mutable_failure()->set_code(static_cast<int>(status.code()));
  message.mutable_failure()->set_message(std::string(status.message()));
  return message;
}

std::vector<Socket> OnlyOne(Socket listener) {
  std::vector<Socket> listeners;
  listeners.push_back(std::move(listener));
  return listeners;
}

}  // namespace

StoreServer::StoreServer(std::vector<Socket> listeners, const StoreServerOptions& options)
    : options_(options), listeners_(std::move(listeners)), port_(listeners_.at(0).port()) {
  DPIPE_CHECK(!options_.secret.empty());
  thread_ = std::thread([this] { Loop(); });
}

StoreServer::StoreServer(Socket listener, const StoreServerOptions& options)
    : StoreServer(OnlyOne(std::move(listener)), options) {}

StoreServer::~StoreServer() {
  stopping_ = true;
  thread_.join();
}

void StoreServer::Loop() {
  RunningClock clock = HeartbeatClock();
  absl::Duration stopping_for;
  while (!Finished(stopping_for)) {
    PollOnce();
    const absl::Duration lap = clock.Lap();
    if (stopping_) stopping_for += lap;
    Tick(lap);
    clients_.remove_if([](const Client& client) { return client.gone; });
  }
}

bool StoreServer::Finished(absl::Duration stopping_for) const {
  if (!stopping_) return false;
  bool alone = true;
  for (const Client& client : clients_) alone = alone && client.process < 0;
  return alone || stopping_for >= (failure_.ok() ? options_.silence : kFarewell);
}

// Makes room for one more stranger.
void StoreServer::MakeRoom() {
  const auto is_stranger = [](const Client& client) { return !client.proven && !client.gone; };
  std::map<std::string, int> counts;
  for (const Client& client : clients_) counts[client.address] += is_stranger(client) ? 1 : 0;
  if (std::count_if(clients_.begin(), clients_.end(), is_stranger) < kMaxStrangers) return;
  const auto has_fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const std::string most = std::max_element(counts.begin(), counts.end(), has_fewer)->first;
  Refuse(&*std::find_if(clients_.begin(), clients_.end(), [&](const Client& client) {
    return is_stranger(client) && client.address == most;
  }));
}

void StoreServer::Accept(const Socket& listener) {
  for (int i = 0; i < kMaxAcceptedAtOnce; ++i) {
    Socket socket = AcceptTcp(listener);
    if (socket.fd() < 0) return;
    MakeRoom();
    Client& client = clients_.emplace_back();
    client.socket = std::move(socket);
    client.address = client.socket.PeerAddress();
    client.nonce = RandomBytes(kNonceBytes);
    client.out.Append(client.nonce);
    client.socket.SendSome(&client.out);
  }
}

void StoreServer::PollOnce() {
  std::vector<pollfd> entries;
  for (const Socket& listener : listeners_) entries.push_back({listener.fd(), POLLIN, 0});
  std::vector<Client*> polled;
  for (Client& client : clients_) {
    const short events = client.out.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({client.socket.fd(), events, 0});
    polled.push_back(&client);
  }
  if (poll(entries.data(), entries.size(), absl::ToInt64Milliseconds(kHeartbeatTick)) <= 0) return;
  const size_t num_listeners = listeners_.size();
  for (size_t i = 0; i < polled.size(); ++i) {
    const short events = entries[num_listeners + i].revents;
    if (events & (POLLIN | POLLHUP | POLLERR)) Read(polled[i]);
    if (events & POLLOUT && !polled[i]->gone &&
        polled[i]->socket.SendSome(&polled[i]->out) == Socket::Outcome::kClosed) {
      OnDisconnect(polled[i]);
    }
  }
  for (size_t i = 0; i < num_listeners; ++i) {
    if (entries[i].revents & POLLIN) Accept(listeners_[i]);
  }
}

void StoreServer::Tick(absl::Duration elapsed) {
  age_ += elapsed;
  since_heartbeat_ += elapsed;
  if (!all_joined() && age_ > options_.join_deadline && failure_.ok()) {
    std::vector<std::string> missing;
    for (int i = 0; i < options_.num_processes; ++i) {
      if (joined_.count(i) == 0) missing.push_back(absl::StrCat(i));
    }
    Fail(absl::DeadlineExceededError(absl::StrCat(
        "only ", num_joined(), " of ", options_.num_processes, " processes joined at port ", port_,
        " within ", absl::FormatDuration(options_.join_deadline), "; missing: process ",
        ShowNames(missing), RefusalSummary())));
  }
  ReportRefused(elapsed);
  const bool beat = since_heartbeat_ >= HeartbeatInterval(options_.silence);
  if (beat) since_heartbeat_ = absl::ZeroDuration();
  StoreMessage heartbeat;
  heartbeat.set_heartbeat(1);
  for (Client& client : clients_) {
    client.silent += elapsed;
    if (client.process < 0) {
      client.age += elapsed;
      if (client.gone || client.age <= options_.stranger_deadline) continue;
      client.gone = true;
      if (!client.proven) Refuse(&client);
      continue;
    }
    // A process that waits for the others to join sends nothing; its death would close the
    // connection.
    if (!all_joined()) client.silent = absl::ZeroDuration();
    if (beat) Send(&client, heartbeat);
    if (client.silent <= options_.silence || !failure_.ok()) continue;
    Fail(absl::UnavailableError(absl::StrCat(client.name, " has sent nothing for ",
                                             absl::FormatDuration(options_.silence),
                                             ": it is frozen, or its network is cut")));
  }
}

// A stranger sends this answer and nothing else, so no more is read.
void StoreServer::ReadAnswer(Client* client) {
  const Socket::Outcome outcome =
      client->socket.Receive(&client->answer, kAnswerBytes - client->answer.size());
  if (outcome == Socket::Outcome::kClosed) client->gone = true;
  if (client->answer.size() < kAnswerBytes) return;
  const auto answer = absl::string_view(client->answer);
  const StoreChallenge challenge(options_.secret, client->nonce, answer.substr(0, kNonceBytes));
  if (!SameBytes(answer.substr(kNonceBytes), challenge.ProofOf(StoreSide::kProcess))) {
    return Refuse(client);
  }
  client->proven = true;
  client->in = FrameReader(challenge.KeyOf(StoreSide::kProcess));
  client->writer = FrameWriter(challenge.KeyOf(StoreSide::kStore));
  client->out.Append(challenge.ProofOf(StoreSide::kStore));
  client->socket.SendSome(&client->out);
}

void StoreServer::Refuse(Client* client) {
  client->gone = true;
  ++num_refused_;
  last_refused_ = client->address;
}

std::string StoreServer::RefusalSummary() const {
  if (num_refused_ == 0) return "";
  return absl::StrCat("; ", Count(num_refused_, "connection"),
                      " had no proof of the job's secret, the last from ", last_refused_,
                      "; all processes need the same secret as process 0, which read it from ",
                      options_.secret.source());
}

void StoreServer::ReportRefused(absl::Duration elapsed) {
  since_report_ += elapsed;
  if (num_refused_ == num_reported_ || since_report_ < kReportInterval) return;
  const std::string line =
      absl::StrCat("The job's store at port ", port_, " refused ",
                   Count(num_refused_ - num_reported_, "connection"),
                   " without proof of the job's secret, the last from ", last_refused_, ".");
  num_reported_ = num_refused_;
  since_report_ = absl::ZeroDuration();
  if (options_.say) return options_.say(line);
  std::fprintf(stderr, "%s\n", line.c_str());
}

void StoreServer::Read(Client* client) {
  if (client->gone) return;
  if (!client->proven) return ReadAnswer(client);
  const Socket::Outcome outcome = client->socket.Receive(client->in.buffer());
  if (outcome == Socket::Outcome::kClosed) return OnDisconnect(client);
  client->silent = absl::ZeroDuration();
  while (!client->gone) {
    auto message = client->in.Next(client->process < 0 ? kMaxJoinBytes : kMaxFrameBytes);
    if (!message.ok()) return OnDisconnect(client);  // not a process of this job
    if (!message->has_value()) return;
    Handle(client, **std::move(message));
  }
}

void StoreServer::Handle(Client* client, StoreMessage message) {
  if (client->process < 0) {
    if (message.kind_case() == StoreMessage::kJoin) return Join(client, message.join());
    client->gone = true;
    return;
  }
  switch (message.kind_case()) {
    case StoreMessage::kSet:
      return Set(std::move(*message.mutable_set()));
    case StoreMessage::kGet: {
      const auto entry = table_.find(message.get());
      if (entry == table_.end()) {
        client->wanted.push_back(message.get());
        return;
      }
      StoreMessage answer;
      answer.mutable_value()->set_key(entry->first);
      answer.mutable_value()->set_value(entry->second);
      return Send(client, answer);
    }
    case StoreMessage::kNote:
      for (Client& other : clients_) {
        if (other.process == message.note().to() && !other.gone) return Send(&other, message);
      }
      return;
    case StoreMessage::kFailure:
      return Fail(absl::Status(static_cast<absl::StatusCode>(message.failure().code()),
                               message.failure().message()));
    case StoreMessage::kLeaving:
      client->gone = true;
      return;
    default:
      return;  // a heartbeat
  }
}

std::string StoreServer::WhyRefused(const StoreMessage::Join& join) const {
  if (join.protocol() != kStoreProtocol) {
    return absl::StrCat("it uses protocol version ", join.protocol(), ", this store ",
                        kStoreProtocol, ": the processes come from different builds");
  }
  if (join.num_processes() != options_.num_processes) {
    return absl::StrCat("it expects ", join.num_processes(), " processes, this store ",
                        options_.num_processes);
  }
  if (join.process() < 0 || join.process() >= options_.num_processes) {
    return absl::StrCat("process ", join.process(), " does not exist: there are ",
                        options_.num_processes, " processes, numbered from 0");
  }
  const auto same = joined_.find(join.process());
  if (same != joined_.end()) {
    return absl::StrCat("process ", join.process(), " has already joined: ", same->second.name());
  }
  return "";
}

// The store of an earlier run is about to exit. All its processes have joined already, so others,
// or another one with the same number, belong to the next run.
std::string StoreServer::RetryReason(const StoreMessage::Join& join) const {
  if (join.protocol() != kStoreProtocol) return "";
  if (join.job() != options_.job) {
    return absl::StrCat("this store belongs to job '", options_.job, "', not '", join.job(), "'");
  }
  const bool is_ending = stopping_ || !failure_.ok();
  const bool is_own =
      join.num_processes() == options_.num_processes && joined_.count(join.process()) == 0;
  if (!is_ending || is_own) return "";
  return absl::StrCat("an earlier run is ending here",
                      failure_.ok() ? "" : absl::StrCat(": ", failure_.message()));
}

void StoreServer::Join(Client* client, const StoreMessage::Join& join) {
  const std::string not_now = RetryReason(join);
  if (!not_now.empty()) {
    StoreMessage answer;
    answer.set_not_now(not_now);
    Send(client, answer);
    client->gone = true;
    return;
  }
  const std::string refusal = WhyRefused(join);
  if (!refusal.empty()) {
    Send(client, Refusal(refusal));
    client->gone = true;
    return;
  }
  if (!failure_.ok()) {  // a late process gets the reason why the others have left
    Send(client, FailureMessage(failure_));
    client->gone = true;
    return;
  }
  client->process = join.process();
  client->name = join.name();
  joined_[join.process()] = join;
  if (all_joined()) WelcomeAll();
}

// Returns the address at which the other processes reach this one. A process on this host may have
// connected to the loopback address, at which no other host reaches it. It then gets the address at
// which others have reached this host.
std::string StoreServer::AddressOf(const Client& client) const {
  const std::string address = client.socket.PeerAddress();
  if (!IsLoopback(address)) return address;
  for (const Client& other : clients_) {
    if (other.process >= 0 && !IsLoopback(other.socket.PeerAddress())) {
      return other.socket.LocalAddress();
    }
  }
  return address;
}

void StoreServer::WelcomeAll() {
  for (Client& client : clients_) {
    if (client.process < 0) continue;
    StoreMessage welcome;
    welcome.mutable_joined()->set_address(AddressOf(client));
    for (const auto& [process, join] : joined_) {
      welcome.mutable_joined()->add_names(join.name());
      welcome.mutable_joined()->add_hosts(join.host());
    }
    Send(&client, welcome);
  }
}

void StoreServer::Set(StoreMessage::Entry entry) {
  StoreMessage answer;
  *answer.mutable_value() = entry;
  for (Client& client : clients_) {
    const auto answered = std::remove(client.wanted.begin(), client.wanted.end(), entry.key());
    const auto num_answers = client.wanted.end() - answered;
    client.wanted.erase(answered, client.wanted.end());
    for (int i = 0; i < num_answers; ++i) Send(&client, answer);
  }
  table_[entry.key()] = std::move(*entry.mutable_value());
}

void StoreServer::OnDisconnect(Client* client) {
  client->gone = true;
  if (client->process < 0) return;
  Fail(absl::UnavailableError(
      absl::StrCat(client->name, " has died: its connection to the job's store was closed")));
}

void StoreServer::Fail(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  const StoreMessage message = FailureMessage(status);
  for (Client& client : clients_) {
    if (client.process >= 0 && !client.gone) Send(&client, message);
  }
}

void StoreServer::Send(Client* client, const StoreMessage& message) {
  client->out.Append(client->writer.Encode(message));
  // The rest is sent when the socket is writable; a broken connection is noticed when reading.
  client->socket.SendSome(&client->out);
  if (client->out.size() <= kMaxUntakenBytes || client->gone) return;
  client->gone = true;
  Fail(absl::UnavailableError(absl::StrCat(client->name, " is not reading: the job's store holds ",
                                           client->out.size(), " unread bytes for it")));
}

}  // namespace dpipe
