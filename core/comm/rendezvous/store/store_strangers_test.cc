// Attacks on a job's store by strangers that do not know its secret, or are between it and a
// process: they can only take some of its time.
#include <poll.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/comm/rendezvous/store/store_frame.h"
#include "core/comm/rendezvous/store/store_server.h"
#include "core/comm/rendezvous/testing/bare_peer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kProcesses = 3;
constexpr char kJob[] = "job with a name";

// The store of a job, its processes, and strangers.
class StoreStrangersTest : public ::testing::Test {
 protected:
  void Start(absl::Duration stranger_deadline = absl::Seconds(5)) {
    auto listener = ListenOnLoopback();
    ASSERT_TRUE(listener.ok()) << listener.status();
    StoreServerOptions options;
    options.secret = secret_;
    options.job = job_;
    options.num_processes = kProcesses;
    options.stranger_deadline = stranger_deadline;
    options.join_deadline = join_deadline_;
    options.say = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      said_.push_back(line);
    };
    server_ = std::make_unique<StoreServer>(*std::move(listener), options);
  }

  StoreClientOptions Options(int process) const {
    StoreClientOptions options;
    options.host = "127.0.0.1";
    options.port = server_->port();
    options.secret = secret_;
    options.job = job_;
    options.process = process;
    options.num_processes = kProcesses;
    options.name = absl::StrCat("rank ", process);
    options.join_deadline = join_deadline_;
    return options;
  }

  // Begins to join, which ends when all have joined.
  void BeginToJoin(int process) {
    joining_.emplace_back([this, process] {
      auto client = StoreClient::Join(Options(process));
      EXPECT_TRUE(client.ok()) << client.status();
      if (client.ok()) clients_[process] = *std::move(client);
    });
  }
  void FinishJoining() {
    for (std::thread& thread : joining_) thread.join();
    joining_.clear();
    for (const auto& client : clients_) ASSERT_NE(client, nullptr);
  }

  // Expects that all processes work, and that nothing from strangers has reached them.
  void ExpectThatTheJobWorks() {
    FinishJoining();
    for (int process = 0; process < kProcesses; ++process) {
      StoreClient& client = *clients_[process];
      ASSERT_TRUE(client.Set(absl::StrCat("from ", process), "well").ok());
      ASSERT_TRUE(client.SendNote((process + 1) % kProcesses, "note", "well").ok());
    }
    for (const auto& client : clients_) {
      for (int process = 0; process < kProcesses; ++process) {
        const auto value = client->Get(absl::StrCat("from ", process), "a value");
        ASSERT_TRUE(value.ok()) << value.status();
        EXPECT_EQ(*value, "well");
      }
      EXPECT_EQ(*client->TakeNote("note", "a note"), "well");
      constexpr absl::Duration kShort = absl::Milliseconds(20);
      EXPECT_EQ(client->Get("stranger's", "a value", kShort).status().code(),
                absl::StatusCode::kDeadlineExceeded);
      EXPECT_EQ(client->TakeNote("stranger's", "a note", kShort).status().code(),
                absl::StatusCode::kDeadlineExceeded);
      EXPECT_TRUE(client->failure().ok()) << client->failure();
    }
  }

  std::vector<std::string> Said() {
    absl::MutexLock lock(&mutex_);
    return said_;
  }

  const JobSecret secret_ = JobSecret::Random(), wrong_secret_ = JobSecret::Random();
  std::string job_ = kJob;
  absl::Duration join_deadline_ = absl::Seconds(60);
  absl::Mutex mutex_;
  std::vector<std::string> said_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> clients_[kProcesses];
  std::vector<std::thread> joining_;
};

Socket Connect(int port) {
  auto socket = ConnectTcp("127.0.0.1", port, absl::Seconds(60));
  EXPECT_TRUE(socket.ok()) << socket.status();
  return *std::move(socket);
}

// Returns a message of each kind, with content that would do harm.
std::vector<StoreMessage> OneOfEachKind() {
  std::vector<StoreMessage> messages;
  const auto* const kinds = StoreMessage::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds->field_count(); ++i) {
    const auto* const kind = kinds->field(i);
    StoreMessage message;
    const auto* const reflection = message.GetReflection();
    switch (static_cast<StoreMessage::KindCase>(kind->number())) {
      case StoreMessage::kJoin:
        message.mutable_join()->set_protocol(kStoreProtocol);
        message.mutable_join()->set_job(kJob);
        message.mutable_join()->set_process(kProcesses - 1);
        message.mutable_join()->set_num_processes(kProcesses);
        break;
      case StoreMessage::kSet:
        message.mutable_set()->set_key("stranger's");
        message.mutable_set()->set_value("harm");
        break;
      case StoreMessage::kGet:
        message.set_get("from 0");
        break;
      case StoreMessage::kNote:
        message.mutable_note()->set_to(1);
        message.mutable_note()->set_key("stranger's");
        break;
      case StoreMessage::kFailure:
        message.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kDataLoss));
        message.mutable_failure()->set_message("harm");
        break;
      default:
        if (kind->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
          reflection->MutableMessage(&message, kind);
        } else if (kind->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
          reflection->SetString(&message, kind, "harm");
        } else if (kind->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL) {
          reflection->SetBool(&message, kind, true);
        } else {
          reflection->SetInt64(&message, kind, 1);
        }
    }
    EXPECT_EQ(message.kind_case(), kind->number());
    messages.push_back(std::move(message));
  }
  return messages;
}

// Returns what strangers send instead of an answer, depending on what they know. Each also sends
// `message`, as if it had been admitted.
std::vector<std::string> Attempts(const StoreMessage& message, const std::string& store_nonce,
                                  const JobSecret& wrong_secret) {
  const std::string nonce = RandomBytes(kNonceBytes);
  const StoreChallenge wrong(wrong_secret, store_nonce, nonce);
  const std::string plain = message.SerializeAsString();
  const std::string length = {static_cast<char>(plain.size()), 0, 0, 0};
  const std::string filler(kAnswerBytes, '\0');
  return {
      // Does not know about a challenge.
      length + plain + filler,
      // The store's own nonce as the process's, without a proof.
      store_nonce + std::string(kHmacBytes, '\0') + length + plain,
      // With another secret, by which every message is signed accordingly.
      nonce + wrong.ProofOf(StoreSide::kProcess) +
          FrameWriter(wrong.KeyOf(StoreSide::kProcess)).Encode(message),
      // With the proof of a store.
      nonce + wrong.ProofOf(StoreSide::kStore) +
          FrameWriter(wrong.KeyOf(StoreSide::kStore)).Encode(message),
      // More than is ever read.
      std::string("\xff\xff\xff\xff") + std::string(300000, '\xff'),
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: somebody who looks around\r\n\r\n",
  };
}

void TryEverything(int port, const JobSecret& wrong_secret) {
  for (const StoreMessage& message : OneOfEachKind()) {
    const size_t num_attempts =
        Attempts(message, std::string(kNonceBytes, 'x'), wrong_secret).size();
    for (size_t i = 0; i < num_attempts; ++i) {
      Socket socket = Connect(port);
      const std::string store_nonce = ReadUntilClosed(&socket, kNonceBytes);
      ASSERT_EQ(store_nonce.size(), kNonceBytes);
      socket.SendAll(Attempts(message, store_nonce, wrong_secret)[i], absl::Seconds(60))
          .IgnoreError();  // the connection may already be closed
      EXPECT_EQ(ReadUntilClosed(&socket), "") << "attempt " << i << ", " << message.DebugString();
    }
  }
}

TEST_F(StoreStrangersTest, NothingIsReadSetJoinedOrEndedInAnyPhase) {
  Start();
  TryEverything(server_->port(), wrong_secret_);  // before any process has joined
  for (int process : {0, 1}) BeginToJoin(process);
  TryEverything(server_->port(), wrong_secret_);  // while the job forms
  BeginToJoin(2);
  FinishJoining();
  ASSERT_TRUE(clients_[0]->Set("from 0", "well").ok());
  TryEverything(server_->port(), wrong_secret_);  // after it has formed
  ExpectThatTheJobWorks();
  for (const std::string& line : Said()) EXPECT_THAT(line, Not(HasSubstr(kJob)));
}

TEST_F(StoreStrangersTest, FloodDoesNotKeepProcessesOut) {
  Start();
  constexpr int kHeld = 600;
  std::vector<Socket> held;
  for (int i = 0; i < kHeld; ++i) {
    held.push_back(Connect(server_->port()));
    // Half an answer, or none.
    if (i % 2 == 0) held.back().SendAll("half", absl::Seconds(60)).IgnoreError();
  }
  std::atomic<bool> done = false;
  std::vector<std::thread> flood;
  for (int i = 0; i < 2; ++i) {
    flood.emplace_back([&] {
      while (!done)
        ConnectTcp("127.0.0.1", server_->port(), absl::Seconds(60)).status().IgnoreError();
    });
  }
  for (int process = 0; process < kProcesses; ++process) BeginToJoin(process);
  ExpectThatTheJobWorks();
  done = true;
  for (std::thread& thread : flood) thread.join();
  int num_closed = 0;
  for (Socket& socket : held) {
    std::string bytes;
    socket.Receive(&bytes);
    num_closed += socket.Receive(&bytes) == Socket::Outcome::kClosed ? 1 : 0;
    EXPECT_LE(bytes.size(), kNonceBytes);
  }
  EXPECT_GE(num_closed, kHeld - 256) << "as many as the store keeps";
}

TEST_F(StoreStrangersTest, AnAnswerThatDoesNotEndIsNotWaitedForLong) {
  Start(/*stranger_deadline=*/absl::Milliseconds(100));
  for (const std::string& half : {std::string(), std::string(kAnswerBytes - 1, 'x')}) {
    Socket socket = Connect(server_->port());
    ASSERT_TRUE(socket.SendAll(half, absl::Seconds(60)).ok());
    EXPECT_EQ(ReadUntilClosed(&socket).size(), kNonceBytes);
  }
  {  // knows the secret, but does not join
    BarePeer silent = BarePeer::AsProcess(server_->port(), secret_);
    EXPECT_EQ(ReadUntilClosed(&silent.socket()), "");
  }
  for (int process = 0; process < kProcesses; ++process) BeginToJoin(process);
  ExpectThatTheJobWorks();
}

// An attacker who has recorded everything that a process ever sent to the store.
TEST_F(StoreStrangersTest, ReplayIsRefused) {
  Start();
  std::string overheard;
  {
    Socket socket = Connect(server_->port());
    const std::string store_nonce = ReadUntilClosed(&socket, kNonceBytes);
    const std::string nonce = RandomBytes(kNonceBytes);
    const StoreChallenge challenge(secret_, store_nonce, nonce);
    StoreMessage join;
    join.mutable_join()->set_protocol(kStoreProtocol);
    join.mutable_join()->set_job("another");
    overheard = nonce + challenge.ProofOf(StoreSide::kProcess) +
                FrameWriter(challenge.KeyOf(StoreSide::kProcess)).Encode(join);
    ASSERT_TRUE(socket.SendAll(overheard, absl::Seconds(60)).ok());
    EXPECT_GT(ReadUntilClosed(&socket).size(), kHmacBytes) << "it is let in";
  }
  Socket socket = Connect(server_->port());
  ReadUntilClosed(&socket, kNonceBytes);
  ASSERT_TRUE(socket.SendAll(overheard, absl::Seconds(60)).ok());
  EXPECT_EQ(ReadUntilClosed(&socket), "");
}

// An attacker between a process and the store, who lets the challenge and the joining pass.
TEST_F(StoreStrangersTest, ManInTheMiddleCannotAlterRequests) {
  job_ = "";
  const std::vector<std::function<std::string(std::string)>> changes = {
      [](std::string frame) {  // the value
        frame[frame.find("well")] = 'h';
        return frame;
      },
      [](std::string frame) {  // the signature
        frame.back() ^= 1;
        return frame;
      },
      [](std::string frame) {  // the length
        frame[0] -= 1;
        return frame;
      },
      [](std::string frame) {  // preceded by a message of the attacker's
        StoreMessage set;
        set.mutable_set()->set_key("key");
        set.mutable_set()->set_value("harm");
        return FrameWriter("another key").Encode(set) + frame;
      },
      [](std::string frame) { return frame + frame; },  // repeated
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Start();
    for (int process : {0, 1}) BeginToJoin(process);
    BarePeer peer = BarePeer::AsJoined(server_->port(), secret_, 2, kProcesses);
    for (std::thread& thread : joining_) thread.join();
    joining_.clear();
    ASSERT_NE(clients_[0], nullptr);
    StoreMessage set;
    set.mutable_set()->set_key("key");
    set.mutable_set()->set_value("well");
    peer.SayBytes(changes[i](peer.Encode(set)));
    EXPECT_TRUE(clients_[0]->AwaitFailure(absl::Seconds(60))) << i;
    EXPECT_THAT(std::string(clients_[0]->failure().message()), HasSubstr("rank 2 (pid 7 on node2)"))
        << i;
    for (auto& client : clients_) client = nullptr;
  }
}

TEST_F(StoreStrangersTest, ManInTheMiddleCannotAlterReplies) {
  auto listener = ListenOnLoopback();
  ASSERT_TRUE(listener.ok()) << listener.status();
  StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = listener->port();
  options.secret = secret_;
  absl::StatusOr<std::unique_ptr<StoreClient>> client = absl::UnknownError("");
  std::thread joining([&] { client = StoreClient::Join(options); });
  BarePeer store = BarePeer::AsStore(*listener, secret_);
  StoreMessage message;
  message.mutable_joined()->add_names("rank 0");
  store.Say(message);
  joining.join();
  ASSERT_TRUE(client.ok()) << client.status();
  message.mutable_note()->set_key("order");
  message.mutable_note()->set_value("step");
  const std::string frame = store.Encode(message);
  store.SayBytes(frame + frame);
  ASSERT_TRUE((*client)->AwaitFailure(absl::Seconds(60)));
  EXPECT_THAT(std::string((*client)->failure().message()),
              HasSubstr("violates the protocol: a message of "));
  EXPECT_EQ(*(*client)->TakeNote("order", "an order"), "step");
  EXPECT_FALSE((*client)->TakeNote("order", "an order", absl::Milliseconds(20)).ok())
      << "it came once";
}

TEST_F(StoreStrangersTest, BothSidesReportDifferentSecrets) {
  join_deadline_ = absl::Milliseconds(600);
  Start();
  StoreClientOptions other = Options(1);
  other.secret = *JobSecret::FromHex(wrong_secret_.Hex(), "the file /home/ann/.dpipe/job_secret");
  absl::Status waited;
  std::thread waiting([&] { waited = StoreClient::Join(Options(0)).status(); });
  const absl::Status refused = StoreClient::Join(other).status();
  waiting.join();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      std::string(refused.message()),
      absl::StrCat("process 1 of 3 at 127.0.0.1:", server_->port(),
                   ": the store closed the connection during the challenge: it belongs to another "
                   "job, or its secret differs from this process's, which comes from the file "
                   "/home/ann/.dpipe/job_secret; give all processes of the job the same "
                   "DPIPE_JOB_SECRET"));
  EXPECT_THAT(std::string(waited.message()), HasSubstr("missing: process 1, 2; "));
  EXPECT_THAT(
      std::string(waited.message()),
      HasSubstr("had no proof of the job's secret, the last from 127.0.0.1; all "
                "processes need the same secret as process 0, which read it from the launcher"));
  // One line for many connections.
  const std::vector<std::string> said = Said();
  ASSERT_EQ(said.size(), 1);
  EXPECT_EQ(said[0], absl::StrCat("The job's store at port ", server_->port(),
                                  " refused 1 connection without proof of the job's secret, the "
                                  "last from 127.0.0.1."));
  for (const JobSecret& secret : {secret_, wrong_secret_}) {
    EXPECT_THAT(std::string(refused.message()), Not(HasSubstr(secret.Hex())));
    EXPECT_THAT(said[0] + std::string(waited.message()), Not(HasSubstr(secret.Hex())));
  }
}

}  // namespace
}  // namespace dpipe
