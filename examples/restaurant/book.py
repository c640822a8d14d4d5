"""Books a table: reads one JSON object and writes one.

The example stores nothing. A real program should store the booking under $NUNCIO_EXECUTION_ID: after a
crash of the server, the execution is repeated with the same id and a higher $NUNCIO_ATTEMPT.
"""

import json
import sys

RESTAURANTS = [
    {
        "name": "Trattoria Roma",
        "cuisine": "Italian",
        "city": "San Francisco",
        "address": "123 Columbus Ave, SF",
        "tables": {12: 2, 42: 4, 7: 8},
    },
    {
        "name": "Sakura House",
        "cuisine": "Japanese",
        "city": "San Francisco",
        "address": "1737 Post St, SF",
        "tables": {3: 2, 5: 6},
    },
]

wish = json.load(sys.stdin)
for restaurant in RESTAURANTS:
    if (restaurant["cuisine"].lower(), restaurant["city"].lower()) != (wish["cuisine"].lower(), wish["city"].lower()):
        continue
    fitting = [(seats, number) for number, seats in restaurant["tables"].items() if seats >= wish["party_size"]]
    if fitting:
        initials = "".join(word[0] for word in restaurant["name"].split())
        booking = {
            "restaurant": restaurant["name"],
            "confirmation_code": f"{initials}-{wish['date'].replace('-', '')}-{min(fitting)[1]:03}",
            "time": wish["time"],
            "address": restaurant["address"],
        }
        print(json.dumps(booking))
        sys.exit()
sys.exit(f"no {wish['cuisine']} restaurant in {wish['city']} has a table for {wish['party_size']}")
