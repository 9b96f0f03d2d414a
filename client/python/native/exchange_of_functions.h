#ifndef KILN_CLIENT_PYTHON_NATIVE_EXCHANGE_OF_FUNCTIONS_H_
#define KILN_CLIENT_PYTHON_NATIVE_EXCHANGE_OF_FUNCTIONS_H_

#include "client/python/native/dlpack_abi.h"

/* The table made of libtorch's C functions; NULL, with an ImportError that names
 * what is not there. After kiln_reading_learn. Needs the GIL. */
const DlpackExchange* kiln_exchange_of_functions(void);

#endif /* KILN_CLIENT_PYTHON_NATIVE_EXCHANGE_OF_FUNCTIONS_H_ */
