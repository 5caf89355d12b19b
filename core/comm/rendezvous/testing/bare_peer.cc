#include "core/comm/rendezvous/testing/bare_peer.h"

#include <poll.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/comm/rendezvous/store/store_frame.h"
#include "core/comm/rendezvous/store/store_server.h"

namespace dpipe {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);

void AwaitData(const Socket& socket) {
  pollfd entry = {socket.fd(), POLLIN, 0};
  DPIPE_CHECK_GT(poll(&entry, 1, absl::ToInt64Milliseconds(kDeadline)), 0) << "nothing comes";
}

}  // namespace

BarePeer BarePeer::AsProcess(int port, const JobSecret& secret) {
  BarePeer peer;
  auto socket = ConnectTcp("127.0.0.1", port, kDeadline);
  DPIPE_CHECK(socket.ok()) << socket.status();
  peer.socket_ = *std::move(socket);
  const std::string store_nonce = ReadUntilClosed(&peer.socket_, kNonceBytes);
  const std::string nonce = RandomBytes(kNonceBytes);
  const StoreChallenge challenge(secret, store_nonce, nonce);
  peer.SayBytes(nonce + challenge.ProofOf(StoreSide::kProcess));
  DPIPE_CHECK(ReadUntilClosed(&peer.socket_, kHmacBytes) == challenge.ProofOf(StoreSide::kStore));
  peer.writer_ = FrameWriter(challenge.KeyOf(StoreSide::kProcess));
  return peer;
}

BarePeer BarePeer::AsJoined(int port, const JobSecret& secret, int process, int num_processes) {
  BarePeer peer = AsProcess(port, secret);
  StoreMessage message;
  message.mutable_join()->set_protocol(kStoreProtocol);
  message.mutable_join()->set_process(process);
  message.mutable_join()->set_num_processes(num_processes);
  message.mutable_join()->set_name(absl::StrCat("rank ", process, " (pid 7 on node2)"));
  peer.Say(message);
  return peer;
}

BarePeer BarePeer::AsStore(const Socket& listener, const JobSecret& secret) {
  BarePeer peer;
  peer.socket_ = AcceptOne(listener);
  const std::string nonce = RandomBytes(kNonceBytes);
  peer.SayBytes(nonce);
  const std::string answer = ReadUntilClosed(&peer.socket_, kAnswerBytes);
  const StoreChallenge challenge(secret, nonce, answer.substr(0, kNonceBytes));
  DPIPE_CHECK(answer.substr(kNonceBytes) == challenge.ProofOf(StoreSide::kProcess));
  peer.SayBytes(challenge.ProofOf(StoreSide::kStore));
  peer.writer_ = FrameWriter(challenge.KeyOf(StoreSide::kStore));
  return peer;
}

void BarePeer::SayBytes(absl::string_view bytes) {
  const absl::Status sent = socket_.SendAll(bytes, kDeadline);
  DPIPE_CHECK(sent.ok()) << sent;
}

Socket AcceptOne(const Socket& listener) {
  AwaitData(listener);
  return AcceptTcp(listener);
}

std::string ReadUntilClosed(Socket* socket, size_t max_bytes) {
  std::string bytes;
  while (bytes.size() < max_bytes) {
    AwaitData(*socket);
    if (socket->Receive(&bytes, max_bytes - bytes.size()) == Socket::Outcome::kClosed) break;
  }
  return bytes;
}

}  // namespace dpipe
