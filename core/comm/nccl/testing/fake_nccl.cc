#include "core/comm/nccl/testing/fake_nccl.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

struct Round;

using Link = std::pair<int, int>;  // from, to

// One side of a message.
struct Call {
  std::shared_ptr<Call> other;  // set once it has been made
  Round* round = nullptr;
  Link link;
  void* data = nullptr;
  size_t size_bytes = 0;
  bool sends = false;
  bool copied = false;
};

// Calls of a group that are in flight at the same time: the n-th of each link.
struct Round {
  std::vector<std::shared_ptr<Call>> calls;
  bool reached = false;  // by its stream
  bool ran = false;
  struct Comm* comm = nullptr;
};

struct World {
  int joined = 0;
  std::map<Link, std::deque<std::shared_ptr<Call>>> open;  // calls without the other side yet
  std::set<Link> connected;
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0, size = 0;
  bool aborted = false;
  // In progress: reaches the stream after `asks` further calls of GetAsyncError.
  std::vector<std::shared_ptr<Round>> launching = {};
  cudaStream_t stream = nullptr;
  int asks = 0;
  bool entering = false;  // being enqueued on the stream
  int on_stream = 0;      // rounds on the stream
};
constexpr int kAsks = 3;

// How long an abort waits for what its stream waits for.
constexpr absl::Duration kAbortTimeout = absl::Seconds(20);

// Pending calls of the calling thread between GroupStart and GroupEnd.
struct Pending {
  std::shared_ptr<Call> call;
  Comm* comm;
  cudaStream_t stream;
};
thread_local int group_depth = 0;
thread_local std::vector<Pending> pending;

struct State {
  cuda::FakeDriver* driver = nullptr;
  absl::Mutex mutex;
  absl::CondVar ran;  // a round
  int64_t next_id ABSL_GUARDED_BY(mutex) = 1;
  std::map<std::string, std::shared_ptr<World>> worlds ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Comm>> comms ABSL_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<Round>> rounds ABSL_GUARDED_BY(mutex);  // kept for their calls
  std::map<int, ncclResult_t> broken ABSL_GUARDED_BY(mutex);
  int live ABSL_GUARDED_BY(mutex) = 0;
  int unread ABSL_GUARDED_BY(mutex) = 0;
  std::vector<std::string> violations ABSL_GUARDED_BY(mutex);
  std::map<Link, int64_t> sent_bytes ABSL_GUARDED_BY(mutex);
};
State* state = nullptr;

Comm* Of(ncclComm_t comm) { return reinterpret_cast<Comm*>(comm); }

const char* LastError(ncclComm_t) { return ""; }

const char* ErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "an error of the fake";
}

ncclResult_t GetUniqueId(ncclUniqueId* id) {
  absl::MutexLock lock(&state->mutex);
  std::memset(id, 0, sizeof(*id));
  const std::string text = absl::StrCat("fake ", state->next_id++);
  std::memcpy(id, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t InitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  absl::MutexLock lock(&state->mutex);
  std::shared_ptr<World>& world = state->worlds[std::string(id.internal)];
  if (world == nullptr) world = std::make_shared<World>();
  ++world->joined;
  ++state->live;
  state->comms.push_back(std::make_unique<Comm>(Comm{world, rank, size}));
  *comm = reinterpret_cast<ncclComm_t>(state->comms.back().get());
  return ncclInProgress;
}

// Under the state's lock: finds the communicators whose groups in progress connect together with
// that of `comm`, by unused links. Returns false if one of them has not been called yet.
bool FindConnecting(Comm* comm, std::set<Comm*>* found)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
  if (comm->aborted) return false;
  if (!found->insert(comm).second) return true;
  for (const auto& round : comm->launching) {
    for (const auto& call : round->calls) {
      if (comm->world->connected.count(call->link) > 0) continue;
      if (call->other == nullptr || !FindConnecting(call->other->round->comm, found)) return false;
    }
  }
  return true;
}

bool Connect(Comm* comm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
  std::set<Comm*> connecting;
  if (!FindConnecting(comm, &connecting)) return false;
  for (Comm* each : connecting) {
    for (const auto& round : each->launching) {
      for (const auto& call : round->calls) each->world->connected.insert(call->link);
    }
  }
  return true;
}

bool Ready(Round* round) {
  absl::MutexLock lock(&state->mutex);
  round->reached = true;
  if (round->comm->aborted) return true;
  for (const auto& call : round->calls) {
    if (call->other == nullptr || !call->other->round->reached) return false;
  }
  return true;
}

// Runs a round. The side of a call that runs first moves the bytes.
void Run(Round* round) {
  absl::MutexLock lock(&state->mutex);
  round->ran = true;
  --round->comm->on_stream;
  state->ran.SignalAll();
  if (round->comm->aborted) return;
  for (const auto& call : round->calls) {
    Call& from = call->sends ? *call : *call->other;
    Call& to = call->sends ? *call->other : *call;
    if (from.size_bytes != to.size_bytes) {
      state->violations.push_back(
          absl::StrCat("a message of ", from.size_bytes, " bytes was received as ", to.size_bytes));
      continue;
    }
    if (!call->copied) {
      std::memcpy(to.data, from.data, from.size_bytes);
      state->sent_bytes[call->link] += from.size_bytes;
    }
    call->copied = call->other->copied = true;
  }
}

// Moves a communicator's calls in progress to its stream. The driver calls Ready under its own
// lock, so this calls the driver under no lock of ours.
void Launch(Comm* comm) {
  std::vector<std::shared_ptr<Round>> rounds;
  cudaStream_t stream;
  {
    absl::MutexLock lock(&state->mutex);
    if (comm->launching.empty() || comm->entering) return;
    if (--comm->asks > 0 || !Connect(comm)) return;
    comm->entering = true;
    rounds = comm->launching;
    stream = comm->stream;
  }
  // NCCL waits for room in the background.
  const bool has_room = state->driver->HasRoom(stream, rounds.size());
  if (has_room) {
    absl::MutexLock lock(&state->mutex);
    comm->on_stream += static_cast<int>(rounds.size());
  }
  for (const auto& round : rounds) {
    if (!has_room) break;
    state->driver
        ->Enqueue(
            stream, [round] { Run(round.get()); }, [round] { return Ready(round.get()); })
        .IgnoreError();
  }
  absl::MutexLock lock(&state->mutex);
  comm->entering = false;
  if (has_room) comm->launching.clear();
}

ncclResult_t GetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Launch(Of(comm));
  absl::MutexLock lock(&state->mutex);
  const auto broken = state->broken.find(Of(comm)->rank);
  *error = broken != state->broken.end() ? broken->second
           : Of(comm)->world->joined < Of(comm)->size || !Of(comm)->launching.empty()
               ? ncclInProgress
               : ncclSuccess;
  return ncclSuccess;
}

// Counts messages whose data is still in the communicator's buffers, because the other side's
// stream has not read it.
int CountUnread(const Comm* comm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
  int unread = 0;
  for (const auto& round : state->rounds) {
    if (round->comm != comm) continue;
    for (const auto& call : round->calls) {
      if (!call->sends || !call->copied) continue;
      const Round& there = *call->other->round;
      unread += there.ran || there.comm->aborted ? 0 : 1;
    }
  }
  return unread;
}

// Returns when the stream has completed all calls.
ncclResult_t Abort(ncclComm_t handle) {
  Comm* const comm = Of(handle);
  {
    absl::MutexLock lock(&state->mutex);
    DPIPE_CHECK(!comm->aborted) << "a communicator was aborted twice";
    state->unread += CountUnread(comm);
    comm->aborted = true;
    comm->launching.clear();
    --state->live;
    if (!state->driver->current().has_value()) {
      state->violations.push_back("a communicator is aborted by a thread without a context");
    }
  }
  state->driver->Poke();
  const absl::Time until = absl::Now() + kAbortTimeout;
  while (true) {
    state->driver->RunAll();
    absl::MutexLock lock(&state->mutex);
    if (comm->on_stream == 0) return ncclSuccess;
    if (absl::Now() > until) break;
    state->ran.WaitWithTimeout(&state->mutex, absl::Milliseconds(1));
  }
  absl::MutexLock lock(&state->mutex);
  state->violations.push_back(
      absl::StrCat("rank ", comm->rank, ": an abort waits forever for its communicator's stream"));
  return ncclInternalError;
}

// Pairs up calls in order. Called under the state's lock.
void Match(const Pending& p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
  auto& open = p.comm->world->open[p.call->link];
  if (open.empty() || open.front()->sends == p.call->sends) {
    open.push_back(p.call);
    return;
  }
  p.call->other = open.front();
  open.front()->other = p.call;
  open.pop_front();
}

ncclResult_t GroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t GroupEnd() {
  if (--group_depth > 0 || pending.empty()) return ncclSuccess;
  const std::vector<Pending> calls = std::exchange(pending, {});
  Comm* const comm = calls[0].comm;
  absl::MutexLock lock(&state->mutex);
  if (!comm->launching.empty()) {
    state->violations.push_back("a communicator was called while a call was in progress");
    return ncclInvalidUsage;
  }
  std::map<Link, size_t> called;
  for (const Pending& p : calls) {
    if (p.comm != comm) state->violations.push_back("a group of several communicators");
    const size_t number = called[p.call->link]++;
    if (number == comm->launching.size()) {
      comm->launching.push_back(std::make_shared<Round>());
      comm->launching.back()->comm = comm;
      state->rounds.push_back(comm->launching.back());
    }
    p.call->round = comm->launching[number].get();
    p.call->round->calls.push_back(p.call);
    Match(p);
  }
  comm->stream = calls[0].stream;
  comm->asks = kAsks;
  return ncclInProgress;
}

ncclResult_t Add(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                 cudaStream_t stream, bool sends) {
  if (type != ncclUint8) return ncclInvalidArgument;
  const int rank = Of(comm)->rank;
  auto call = std::make_shared<Call>();
  call->link = sends ? Link(rank, peer) : Link(peer, rank);
  call->data = data;
  call->size_bytes = count;
  call->sends = sends;
  GroupStart();
  pending.push_back({std::move(call), Of(comm), stream});
  return GroupEnd();
}

ncclResult_t Send(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  return Add(const_cast<void*>(data), count, type, peer, comm, stream, /*sends=*/true);
}

ncclResult_t Recv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  return Add(data, count, type, peer, comm, stream, /*sends=*/false);
}

}  // namespace

FakeNccl::FakeNccl(cuda::FakeDriver* driver) {
  DPIPE_CHECK(state == nullptr) << "one FakeNccl at a time";
  state = new State;
  state->driver = driver;
  api_.ncclGetErrorString = &ErrorString;
  api_.ncclGetLastError = &LastError;
  api_.ncclGetUniqueId = &GetUniqueId;
  api_.ncclCommInitRankConfig = &InitRank;
  api_.ncclCommGetAsyncError = &GetAsyncError;
  api_.ncclCommAbort = &Abort;
  api_.ncclGroupStart = &GroupStart;
  api_.ncclGroupEnd = &GroupEnd;
  api_.ncclSend = &Send;
  api_.ncclRecv = &Recv;
}

FakeNccl::~FakeNccl() {
  delete state;
  state = nullptr;
}

void FakeNccl::Break(int rank, ncclResult_t error) {
  absl::MutexLock lock(&state->mutex);
  state->broken[rank] = error;
}

std::vector<std::string> FakeNccl::violations() const {
  absl::MutexLock lock(&state->mutex);
  return state->violations;
}

int64_t FakeNccl::SentBytes(int from, int to) const {
  absl::MutexLock lock(&state->mutex);
  return state->sent_bytes[{from, to}];
}

int FakeNccl::num_unread() const {
  absl::MutexLock lock(&state->mutex);
  return state->unread;
}

int FakeNccl::num_live_communicators() const {
  absl::MutexLock lock(&state->mutex);
  return state->live;
}

}  // namespace dpipe
