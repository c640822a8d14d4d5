"""Stands in for GeoClue on a bus of its own: the real one finds nothing without a radio or a web service.

With a desktop id as argument it lets only that one know where it is.
"""

import asyncio
import sys

from dbus_fast import DBusError
from dbus_fast.aio import MessageBus
from dbus_fast.constants import PropertyAccess
from dbus_fast.service import ServiceInterface, dbus_property, method, signal

SERVICE = "org.freedesktop.GeoClue2"
ROOT = "/org/freedesktop/GeoClue2"


class Location(ServiceInterface):
    def __init__(self):
        super().__init__(SERVICE + ".Location")

    @dbus_property(access=PropertyAccess.READ)
    def Latitude(self) -> "d":
        return 52.52

    @dbus_property(access=PropertyAccess.READ)
    def Longitude(self) -> "d":
        return -13.405

    @dbus_property(access=PropertyAccess.READ)
    def Accuracy(self) -> "d":
        return 25.0


class Client(ServiceInterface):
    def __init__(self, allowed):
        super().__init__(SERVICE + ".Client")
        self.allowed, self.desktop_id, self.level = allowed, "", 0

    @dbus_property()
    def DesktopId(self) -> "s":
        return self.desktop_id

    @DesktopId.setter
    def DesktopId(self, value: "s"):
        self.desktop_id = value

    @dbus_property()
    def RequestedAccuracyLevel(self) -> "u":
        return self.level

    @RequestedAccuracyLevel.setter
    def RequestedAccuracyLevel(self, value: "u"):
        self.level = value

    @method()
    def Start(self):
        if self.desktop_id != self.allowed or self.level == 0:
            raise DBusError("org.freedesktop.DBus.Error.AccessDenied", f"'{self.desktop_id}' disallowed")
        self.LocationUpdated("/", ROOT + "/Client/1/Location/0")

    @signal()
    def LocationUpdated(self, old, new) -> "oo":
        return [old, new]


class Manager(ServiceInterface):
    def __init__(self):
        super().__init__(SERVICE + ".Manager")

    @method()
    def GetClient(self) -> "o":
        return ROOT + "/Client/1"


async def main():
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    bus.export(ROOT + "/Manager", Manager())
    bus.export(ROOT + "/Client/1", Client(sys.argv[2]))
    bus.export(ROOT + "/Client/1/Location/0", Location())
    await bus.request_name(SERVICE)
    print("ready", flush=True)
    await bus.wait_for_disconnect()


asyncio.run(main())
