#include "core/comm/nccl/fake_nccl.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

struct Group;

// One side of a message.
struct Call {
  std::shared_ptr<Call> other;  // once it is there
  Group* group = nullptr;
  void* data = nullptr;
  size_t size_bytes = 0;
  bool sends = false;
  bool copied = false;
};

struct Group {
  std::vector<std::shared_ptr<Call>> calls;
  bool reached = false;  // by its stream
  struct Comm* comm = nullptr;
};

struct World {
  int joined = 0;
  // By (from, to): calls whose other side has not come.
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Call>>> open;
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0, size = 0;
  bool aborted = false;
  // In progress: what will come to the stream when it has been asked for so often.
  std::shared_ptr<Group> launching = nullptr;
  cudaStream_t stream = nullptr;
  int asks = 0;
};
constexpr int kAsks = 3;

// Pending calls of the calling thread between GroupStart and GroupEnd.
struct Pending {
  std::shared_ptr<Call> call;
  Comm* comm;
  int peer;
  cudaStream_t stream;
};
thread_local int group_depth = 0;
thread_local std::vector<Pending> pending;

struct State {
  cuda::FakeDriver* driver = nullptr;
  absl::Mutex mutex;
  int64_t next_id ABSL_GUARDED_BY(mutex) = 1;
  std::map<std::string, std::shared_ptr<World>> worlds ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Comm>> comms ABSL_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<Group>> groups ABSL_GUARDED_BY(mutex);  // kept for their calls
  std::map<int, ncclResult_t> broken ABSL_GUARDED_BY(mutex);
  int live ABSL_GUARDED_BY(mutex) = 0;
  std::vector<std::string> violations ABSL_GUARDED_BY(mutex);
};
State* state = nullptr;

Comm* Of(ncclComm_t comm) { return reinterpret_cast<Comm*>(comm); }

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

bool Ready(Group* group);
void Run(Group* group);

// What a communicator has in progress comes to its stream.
void Launch(Comm* comm) {
  std::shared_ptr<Group> group;
  cudaStream_t stream;
  {
    absl::MutexLock lock(&state->mutex);
    if (comm->launching == nullptr || --comm->asks > 0) return;
    group = comm->launching;
    stream = comm->stream;
  }
  // Under no lock of ours: the driver has one of its own, and asks us under it.
  state->driver
      ->Enqueue(
          stream, [group] { Run(group.get()); }, [group] { return Ready(group.get()); })
      .IgnoreError();
  absl::MutexLock lock(&state->mutex);
  if (comm->launching == group) comm->launching = nullptr;
}

ncclResult_t GetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Launch(Of(comm));
  absl::MutexLock lock(&state->mutex);
  const auto broken = state->broken.find(Of(comm)->rank);
  *error = broken != state->broken.end() ? broken->second
           : Of(comm)->world->joined < Of(comm)->size || Of(comm)->launching != nullptr
               ? ncclInProgress
               : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t Abort(ncclComm_t comm) {
  {
    absl::MutexLock lock(&state->mutex);
    DPIPE_CHECK(!Of(comm)->aborted) << "a communicator was aborted twice";
    Of(comm)->aborted = true;
    Of(comm)->launching = nullptr;
    --state->live;
    if (!state->driver->current().has_value()) {
      state->violations.push_back("a communicator is aborted by a thread without a context");
    }
  }
  state->driver->Poke();
  return ncclSuccess;
}

// Under the state's lock: pairs calls up in their order.
void Match(const Pending& p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
  const int rank = p.comm->rank;
  const auto pair = p.call->sends ? std::pair(rank, p.peer) : std::pair(p.peer, rank);
  auto& open = p.comm->world->open[pair];
  if (open.empty() || open.front()->sends == p.call->sends) {
    open.push_back(p.call);
    return;
  }
  p.call->other = open.front();
  open.front()->other = p.call;
  open.pop_front();
}

bool Ready(Group* group) {
  absl::MutexLock lock(&state->mutex);
  group->reached = true;
  if (group->comm->aborted) return true;
  for (const auto& call : group->calls) {
    if (call->other == nullptr || !call->other->group->reached) return false;
  }
  return true;
}

// Whichever side runs first moves the bytes.
void Run(Group* group) {
  absl::MutexLock lock(&state->mutex);
  if (group->comm->aborted) return;
  for (const auto& call : group->calls) {
    Call& from = call->sends ? *call : *call->other;
    Call& to = call->sends ? *call->other : *call;
    if (from.size_bytes != to.size_bytes) {
      state->violations.push_back(
          absl::StrCat("a message of ", from.size_bytes, " bytes was received as ", to.size_bytes));
      continue;
    }
    if (!call->copied) std::memcpy(to.data, from.data, from.size_bytes);
    call->copied = call->other->copied = true;
  }
}

ncclResult_t GroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t GroupEnd() {
  if (--group_depth > 0 || pending.empty()) return ncclSuccess;
  const auto group = std::make_shared<Group>();
  Comm* const comm = group->comm = pending[0].comm;
  absl::MutexLock lock(&state->mutex);
  if (comm->launching != nullptr) {
    state->violations.push_back("a communicator was called while a call was in progress");
    pending.clear();
    return ncclInvalidUsage;
  }
  for (const Pending& p : pending) {
    p.call->group = group.get();
    group->calls.push_back(p.call);
    Match(p);
  }
  state->groups.push_back(group);
  comm->launching = group;
  comm->stream = pending[0].stream;
  comm->asks = kAsks;
  pending.clear();
  return ncclInProgress;
}

ncclResult_t Add(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                 cudaStream_t stream, bool sends) {
  if (type != ncclUint8) return ncclInvalidArgument;
  auto call = std::make_shared<Call>();
  call->data = data;
  call->size_bytes = count;
  call->sends = sends;
  GroupStart();
  pending.push_back({std::move(call), Of(comm), peer, stream});
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

int FakeNccl::num_live_communicators() const {
  absl::MutexLock lock(&state->mutex);
  return state->live;
}

}  // namespace dpipe
