// The computation of collectives, once every rank has arrived.
#ifndef DPIPE_CORE_EMULATION_COLLECTIVE_SUMS_H_
#define DPIPE_CORE_EMULATION_COLLECTIVE_SUMS_H_

#include "core/emulation/emulated_wires.h"

namespace dpipe {

// Computes every member's outputs, as the communicator's contract says: sums in rank order.
void ExchangeTensors(EmulatedCollective* collective);

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_COLLECTIVE_SUMS_H_
