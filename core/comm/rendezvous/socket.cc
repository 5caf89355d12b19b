#include "core/comm/rendezvous/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dpipe {

namespace {

// Pause between two rounds over a host's addresses, since the store's host may start later.
constexpr absl::Duration kRetryInterval = absl::Milliseconds(50);
// Some of a host's addresses may be unreachable from here and must not delay the others.
constexpr absl::Duration kConnectAttemptTimeout = absl::Seconds(3);

std::string SystemReason() { return std::strerror(errno); }

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

absl::StatusOr<AddressList> Resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("the host '", host, "' has no address: ", gai_strerror(error)));
  }
  return AddressList(found, freeaddrinfo);
}

int PollMillis(absl::Duration left) {
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 0, 1000 * 3600));
}

// True if the descriptor is ready for `events` before the deadline.
bool WaitFor(int fd, short events, const Deadline& deadline) {
  while (true) {
    pollfd entry = {fd, events, 0};
    const int ready = poll(&entry, 1, PollMillis(deadline.left()));
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// Disables Nagle's algorithm, because messages are small and latency matters.
void SendAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

absl::StatusOr<Socket> Established(Socket socket) {
  if (IsConnectedToItself(socket)) return absl::UnavailableError("no process listens there");
  return socket;
}

absl::StatusOr<Socket> ConnectOnce(const addrinfo& address, const Deadline& deadline) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return absl::UnavailableError(SystemReason());
  SendAtOnce(socket.fd());
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) {
    return Established(std::move(socket));
  }
  if (errno != EINPROGRESS) return absl::UnavailableError(SystemReason());
  if (!WaitFor(socket.fd(), POLLOUT, deadline)) return absl::DeadlineExceededError("no answer");
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return absl::UnavailableError(std::strerror(error));
  return Established(std::move(socket));
}

// Returns the address in numeric form; IPv4 addresses of a dual-stack socket in IPv4 notation.
std::string Text(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "";
  }
  constexpr absl::string_view kMapped = "::ffff:";
  const absl::string_view text(host);
  return std::string(absl::StartsWith(text, kMapped) ? text.substr(kMapped.size()) : text);
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const in_addr v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return ntohl(v4.s_addr) >> 24 == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

bool IsNumeric(const std::string& host) {
  in6_addr any;
  return inet_pton(AF_INET, host.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &any) == 1;
}

// Returns NotFound if this machine does not have the address.
absl::StatusOr<Socket> Listen(const sockaddr* address, socklen_t size) {
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return absl::NotFoundError(SystemReason());
  const int on = 1, off = 0;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) {
    setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(socket.fd(), address, size) != 0) {
    return errno == EADDRNOTAVAIL ? absl::NotFoundError(SystemReason())
                                  : absl::UnavailableError(SystemReason());
  }
  if (listen(socket.fd(), SOMAXCONN) != 0) return absl::UnavailableError(SystemReason());
  return socket;
}

absl::StatusOr<Socket> ListenV4(in_addr_t host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

// Includes IPv6 if the system supports it.
absl::StatusOr<Socket> ListenOnAll(int port) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  auto socket = Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return absl::IsNotFound(socket.status()) ? ListenV4(INADDR_ANY, port) : std::move(socket);
}

absl::Status CannotListen(const std::string& where, const absl::Status& status) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", where, ": ", status.message()));
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

int Socket::port() const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string Socket::LocalAddress() const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return Text(address, size);
}

std::string Socket::PeerAddress() const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return Text(address, size);
}

absl::Status Socket::SendAll(absl::string_view data, absl::Duration deadline) {
  Deadline since_sent(deadline);
  while (!data.empty()) {
    const ssize_t sent = send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      data.remove_prefix(sent);
      since_sent = Deadline(deadline);
    } else if (errno == EAGAIN) {
      if (!WaitFor(fd_, POLLOUT, since_sent)) {
        return absl::DeadlineExceededError(
            absl::StrCat(PeerAddress(), " has read nothing for ", absl::FormatDuration(deadline)));
      }
    } else if (errno != EINTR) {
      return absl::UnavailableError(SystemReason());
    }
  }
  return absl::OkStatus();
}

Socket::Outcome Socket::Receive(std::string* data, size_t max_bytes) {
  char piece[64 * 1024];
  Outcome outcome = Outcome::kNothing;
  for (size_t received = 0; received < max_bytes;) {
    const ssize_t count = recv(fd_, piece, std::min(sizeof(piece), max_bytes - received), 0);
    if (count > 0) {
      data->append(piece, count);
      received += count;
      outcome = Outcome::kData;
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return outcome == Outcome::kData ? outcome : Outcome::kClosed;  // the next call returns it
    } else if (errno == EAGAIN) {
      return outcome;
    }
  }
  return outcome;
}

Socket::Outcome Socket::SendSome(OutgoingBytes* bytes) {
  while (!bytes->empty()) {
    const absl::string_view front = bytes->front();
    const ssize_t sent = send(fd_, front.data(), front.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes->RemoveFront(sent);
    } else if (errno == EAGAIN) {
      return Outcome::kNothing;
    } else if (errno != EINTR) {
      return Outcome::kClosed;
    }
  }
  return Outcome::kData;
}

std::string HostPort(const std::string& host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

// If no process listens at an address of this host yet, the system may assign the connection the
// same local port that it connects to. TCP then connects it to itself.
bool IsConnectedToItself(const Socket& socket) {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
  return getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

absl::StatusOr<Socket> ConnectTcp(const std::string& host, int port, absl::Duration deadline) {
  const Deadline whole(deadline);
  while (true) {
    absl::Status reason;
    const auto addresses = Resolve(host, port);
    if (!addresses.ok()) reason = addresses.status();
    const addrinfo* next = addresses.ok() ? addresses->get() : nullptr;
    for (; next != nullptr; next = next->ai_next) {
      absl::StatusOr<Socket> socket =
          ConnectOnce(*next, Deadline(std::min(whole.left(), kConnectAttemptTimeout)));
      if (socket.ok()) return socket;
      reason = socket.status();
    }
    if (whole.left() <= kRetryInterval) {
      return absl::DeadlineExceededError(
          absl::StrCat("no connection to ", HostPort(host, port), " within ",
                       absl::FormatDuration(
                           absl::Trunc(deadline + absl::Milliseconds(50), absl::Milliseconds(100))),
                       ": ", reason.message()));
    }
    absl::SleepFor(kRetryInterval);
  }
}

absl::StatusOr<Socket> ListenOnLoopback(int port) {
  auto socket = ListenV4(INADDR_LOOPBACK, port);
  if (!socket.ok()) return CannotListen(HostPort("127.0.0.1", port), socket.status());
  return socket;
}

absl::StatusOr<std::vector<Socket>> ListenAt(const std::string& host, int port,
                                             bool on_several_hosts) {
  DPIPE_ASSIGN_OR_RETURN(const AddressList addresses, Resolve(host, port));
  const bool skips_loopback = on_several_hosts && host != "localhost" && !IsNumeric(host);
  std::vector<Socket> sockets;
  std::set<std::string> seen;  // a name may have the same address several times
  for (const addrinfo* next = addresses.get(); next != nullptr; next = next->ai_next) {
    const std::string bytes(reinterpret_cast<const char*>(next->ai_addr), next->ai_addrlen);
    if ((skips_loopback && IsLoopback(*next->ai_addr)) || !seen.insert(bytes).second) continue;
    auto socket = Listen(next->ai_addr, next->ai_addrlen);
    if (absl::IsNotFound(socket.status())) continue;
    if (!socket.ok()) return CannotListen(HostPort(host, port), socket.status());
    sockets.push_back(*std::move(socket));
  }
  if (!sockets.empty()) return sockets;
  auto socket = ListenOnAll(port);
  if (!socket.ok()) return CannotListen(absl::StrCat("port ", port), socket.status());
  sockets.push_back(*std::move(socket));
  return sockets;
}

Socket AcceptTcp(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.fd() >= 0) SendAtOnce(socket.fd());
  return socket;
}

}  // namespace dpipe
