// The communicator's contract on emulated wires.
#ifndef DPIPE_CORE_EMULATION_EMULATED_COMMUNICATOR_H_
#define DPIPE_CORE_EMULATION_EMULATED_COMMUNICATOR_H_

#include <memory>

#include "core/comm/communicator.h"
#include "core/emulation/emulated_wires.h"

namespace dpipe {

// Creates one rank's endpoint. Messages and sums are real, and arrive at the virtual time at which
// the emulated network is done with them. There are no deadlines: ranks that wait for one another
// get an error at once (DeadlineExceeded, naming what each waits for), and no other wait is
// unbounded. `wires` outlives the communicator.
std::unique_ptr<Communicator> CreateEmulatedCommunicator(EmulatedWires* wires, int rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATED_COMMUNICATOR_H_
